//! The bounded caches of the layer and their keys, in one place.
//!
//! A key only says where to look. What is found is compared with what it would have to be, so nothing has to be
//! invalidated: metadata are known again by their bytes, restrictions by everything that they were resolved from, and
//! an inner 304 by its tag. No answer of a source and no credential is kept for others.
//!
//! Each key has one slot for as long as it is in the cache, behind a lock that is never held while anything is awaited.
//! A slot keeps what the load that began last has put there, in whichever order the loads come to their ends.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    future::ready,
    hash::{Hash, Hasher},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use moka::{Entry, future::Cache, ops::compute::Op};

use crate::policy::TableIdent;

/// What an entry takes beside the bytes that are counted.
const ENTRY_BYTES: usize = 1024;

/// Entries are weighed in steps, so that one that grows a little need not be weighed again.
const SMALLEST_STEP: usize = 4096;

/// So many entries may wait to be weighed. One that is larger than that part of the cache does not wait.
const WAITING: u64 = 64;

/// When a call of the inner service began, among all those of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Began(u64);

/// Counts the calls of the inner service.
#[derive(Debug, Default)]
pub(crate) struct Calls(AtomicU64);

impl Calls {
    /// One begins.
    pub(crate) fn begin(&self) -> Began {
        Began(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// About how much memory something keeps alive.
pub(crate) trait Size {
    /// In bytes.
    fn size(&self) -> usize;
}

/// A cache of slots, bounded by the bytes that they keep alive.
pub(crate) struct SlotCache<K, V> {
    /// Nothing is kept where no bytes are.
    slots: Option<Cache<K, Arc<Slot<V>>>>,
    max_bytes: u64,
}

/// The place of one key.
#[derive(Debug, Default)]
pub(crate) struct Slot<V> {
    value: Mutex<V>,
    /// What the cache takes it for.
    weight: AtomicU32,
}

impl<V> Slot<V> {
    /// What is in it, to be held for a computation at most. A panic in one leaves everything as it was.
    pub(crate) fn lock(&self) -> MutexGuard<'_, V> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> SlotCache<K, V>
where
    K: Size + Clone + Eq + Hash + Send + Sync + 'static,
    V: Size + Default + Send + 'static,
{
    pub(crate) fn new(max_bytes: u64) -> Self {
        let weigh = |key: &K, slot: &Arc<Slot<V>>| {
            let weight = weight(key.size() + slot.lock().size());
            slot.weight.store(weight, Ordering::Relaxed);
            weight
        };
        let build = || Cache::builder().weigher(weigh).max_capacity(max_bytes).build();
        Self { slots: (max_bytes > 0).then(build), max_bytes }
    }

    pub(crate) fn keeps_anything(&self) -> bool {
        self.slots.is_some()
    }

    pub(crate) async fn get<Q>(&self, key: &Q) -> Option<Arc<Slot<V>>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.slots.as_ref()?.get(key).await
    }

    /// The slot of a key, an empty one if there was none.
    pub(crate) async fn get_or_add(&self, key: &K) -> Arc<Slot<V>> {
        match self.get(key).await {
            Some(slot) => slot,
            None => self.add(key, Arc::default()).await,
        }
    }

    /// Changes what is in the slot of a key.
    pub(crate) async fn change(&self, key: &K, change: impl Fn(&mut V)) {
        let slot = match self.get(key).await {
            Some(slot) => slot,
            None => {
                let new = Arc::<Slot<V>>::default();
                change(&mut new.lock());
                let slot = self.add(key, Arc::clone(&new)).await;
                if Arc::ptr_eq(&slot, &new) {
                    return;
                }
                slot
            }
        };
        change(&mut slot.lock());
        self.weigh(key, &slot).await;
    }

    /// Adds a slot, unless somebody else was faster.
    async fn add(&self, key: &K, new: Arc<Slot<V>>) -> Arc<Slot<V>> {
        let Some(slots) = &self.slots else { return new };
        // Boxed, so that not every request on its way has room for what few of them do.
        let slot = Box::pin(slots.get_with(key.clone(), ready(new))).await;
        self.settle(slots, &slot).await;
        slot
    }

    /// Tells the cache what a slot weighs now. One that has left it does not come back.
    pub(crate) async fn weigh(&self, key: &K, slot: &Arc<Slot<V>>) {
        let Some(slots) = &self.slots else { return };
        if slot.weight.load(Ordering::Relaxed) == weight(key.size() + slot.lock().size()) {
            return;
        }
        let put = |found: Option<Entry<K, Arc<Slot<V>>>>| {
            let is_there = found.is_some_and(|found| Arc::ptr_eq(found.value(), slot));
            ready(if is_there { Op::Put(Arc::clone(slot)) } else { Op::Nop })
        };
        Box::pin(slots.entry_by_ref(key).and_compute_with(put)).await;
        self.settle(slots, slot).await;
    }

    /// Lets the cache drop what is too much, if a large entry came in.
    async fn settle(&self, slots: &Cache<K, Arc<Slot<V>>>, slot: &Slot<V>) {
        if u64::from(slot.weight.load(Ordering::Relaxed)) > self.max_bytes / WAITING {
            Box::pin(slots.run_pending_tasks()).await;
        }
    }
}

/// What the load that began last has put there.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    began: Began,
    value: Option<T>,
}

impl<T> Newest<T> {
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Puts what a load brings, unless one that began later was faster.
    pub(crate) fn put(&mut self, began: Began, value: T) {
        if began >= self.began {
            *self = Self { began, value: Some(value) };
        }
    }
}

impl<T> Newest<Arc<T>> {
    /// What is there, if it is the right thing; or else what `make` makes, which stays there unless it is too old.
    pub(crate) fn get_or_put<E>(
        &mut self,
        began: Began,
        is_right: impl FnOnce(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(found) = self.value.as_ref().filter(|found| is_right(found)) {
            self.began = self.began.max(began);
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(make()?);
        self.put(began, Arc::clone(&made));
        Ok(made)
    }
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { began: Began::default(), value: None }
    }
}

impl<T: Size> Size for Newest<T> {
    fn size(&self) -> usize {
        self.value.as_ref().map_or(0, T::size)
    }
}

impl<T: Size> Size for Arc<T> {
    fn size(&self) -> usize {
        T::size(self)
    }
}

impl<K, V> fmt::Debug for SlotCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotCache").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

/// A load without its caller: two with the same key are usually answered with the same metadata. The same table in
/// another spelling is another key.
#[derive(Clone, Debug)]
pub(crate) struct LoadKey(Arc<Load>);

/// What a request is about, and how it says so.
#[derive(Debug)]
struct Load {
    text: Box<str>,
    /// The path, in the text.
    path: Range<usize>,
    /// How much of the path stands before `namespaces` or `transactions`.
    lead: usize,
    /// How much of the path is that of the table.
    table_path: usize,
    table: TableIdent,
}

impl LoadKey {
    /// The text that a key is found by: the target of the request, and before it the catalog if that is not settled
    /// by the path.
    pub(crate) fn text<'a>(catalog: Option<&str>, target: &'a str) -> Cow<'a, str> {
        match catalog {
            None => target.into(),
            Some(catalog) => format!("{}:{catalog}{target}", catalog.len()).into(),
        }
    }

    /// The key with this text, which ends with `target`; `lead` and `table_path` say how much of the path they are.
    pub(crate) fn new(text: &str, target: &str, lead: usize, table_path: usize, table: TableIdent) -> Self {
        let start = text.len() - target.len();
        let length = target.find('?').unwrap_or(target.len());
        Self(Arc::new(Load { text: text.into(), path: start..start + length, lead, table_path, table }))
    }

    /// The same mount and prefix in the same catalog, for a table with another path.
    pub(crate) fn of_table(&self, table: TableIdent, path: &str) -> Self {
        let Load { text, path: Range { start, .. }, lead, .. } = &*self.0;
        Self::new(&[&text[..*start], path].concat(), path, *lead, path.len(), table)
    }

    /// The load of the table itself, whatever was asked about it.
    pub(crate) fn of_this_table(&self) -> Self {
        self.of_table(self.0.table.clone(), self.table_path())
    }

    pub(crate) fn table(&self) -> &TableIdent {
        &self.0.table
    }

    /// The mount and the prefix: a server may hold other tables under each.
    pub(crate) fn lead(&self) -> &str {
        &self.path()[..self.0.lead]
    }

    pub(crate) fn table_path(&self) -> &str {
        &self.path()[..self.0.table_path]
    }

    pub(crate) fn path(&self) -> &str {
        &self.0.text[self.0.path.clone()]
    }

    pub(crate) fn query(&self) -> Option<&str> {
        self.0.text[self.0.path.end..].strip_prefix('?')
    }
}

impl PartialEq for LoadKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for LoadKey {}

impl Hash for LoadKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl Borrow<str> for LoadKey {
    fn borrow(&self) -> &str {
        &self.0.text
    }
}

impl Size for LoadKey {
    fn size(&self) -> usize {
        let TableIdent { catalog, namespace, name } = &self.0.table;
        let names: usize = [catalog, name].into_iter().chain(namespace).map(String::len).sum();
        names + self.0.text.len()
    }
}

/// A load by one caller: everything that the inner service's answer may depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallerKey {
    pub load: LoadKey,
    pub subject: Arc<str>,
    pub delegation: Option<Arc<[u8]>>,
}

impl Size for CallerKey {
    fn size(&self) -> usize {
        self.load.size() + self.subject.len() + self.delegation.as_deref().map_or(0, <[u8]>::len)
    }
}

/// What an entry weighs that keeps so many bytes alive, rounded up to an eighth.
fn weight(bytes: usize) -> u32 {
    let bytes = ENTRY_BYTES.saturating_add(bytes);
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 8).max(SMALLEST_STEP);
    bytes.div_ceil(step).saturating_mul(step).try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A value that takes so many bytes.
    #[derive(Debug, PartialEq)]
    struct Bytes(usize);

    impl Size for Bytes {
        fn size(&self) -> usize {
            self.0
        }
    }

    type TestCache = SlotCache<LoadKey, Newest<Arc<Bytes>>>;

    fn key(name: &str) -> LoadKey {
        let path = format!("/v1/namespaces/sales/tables/{name}");
        let table = TableIdent::new("prod", ["sales"], name);
        LoadKey::new(&path, &path, "/v1".len(), path.len(), table)
    }

    fn began(at: u64) -> Began {
        Began(at)
    }

    async fn put(cache: &TestCache, name: &str, at: u64, bytes: usize) {
        let value = Arc::new(Bytes(bytes));
        cache.change(&key(name), |newest| newest.put(began(at), value.clone())).await;
    }

    async fn found(cache: &TestCache, name: &str) -> Option<usize> {
        cache.get(&key(name)).await?.lock().get().map(|bytes| bytes.0)
    }

    impl TestCache {
        async fn weighted_size(&self) -> u64 {
            let slots = self.slots.as_ref().unwrap();
            slots.run_pending_tasks().await;
            slots.weighted_size()
        }
    }

    #[test]
    fn a_key_is_found_by_the_target_and_by_the_catalog_where_that_counts() {
        let target = "/mount/v1/p/namespaces/sales/tables/orders/plan?snapshots=refs";
        for catalog in [None, Some("prod"), Some("1:x/"), Some("")] {
            let text = LoadKey::text(catalog, target);
            let table = TableIdent::new("prod", ["sales"], "orders");
            let path = target.find("/plan").unwrap();
            let key = LoadKey::new(&text, target, "/mount/v1/p".len(), path, table);
            assert_eq!(Borrow::<str>::borrow(&key), &*text);
            assert_eq!((key.lead(), key.query()), ("/mount/v1/p", Some("snapshots=refs")));
            assert_eq!(key.table_path(), "/mount/v1/p/namespaces/sales/tables/orders");
            assert_eq!(key.path(), format!("{}/plan", key.table_path()));

            let this = key.of_this_table();
            assert_eq!((this.path(), this.query()), (key.table_path(), None));
            assert_eq!(*this.0.text, *LoadKey::text(catalog, key.table_path()), "as if it was asked for");
            let other = key.of_table(TableIdent::new("prod", ["sales"], "x"), "/mount/v1/p/x");
            assert_eq!(
                (other.lead(), other.table_path(), other.table().name.as_str()),
                ("/mount/v1/p", "/mount/v1/p/x", "x")
            );
            assert!(other != key && this != key);
        }
        // Two catalogs, and two targets, with the same bytes one behind the other.
        assert_ne!(LoadKey::text(Some("a"), "/b"), LoadKey::text(Some("a/"), "b"));
        assert_ne!(LoadKey::text(Some("1:a"), "/b"), LoadKey::text(Some("1"), ":a/b"));
    }

    #[tokio::test]
    async fn without_bytes_nothing_is_kept() {
        let cache = TestCache::new(0);
        put(&cache, "t", 1, 1).await;
        assert_eq!(found(&cache, "t").await, None);
        assert!(!cache.keeps_anything());
        cache.get_or_add(&key("t")).await.lock().put(began(1), Arc::new(Bytes(1)));
        assert_eq!(found(&cache, "t").await, None);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_not_kept() {
        let cache = TestCache::new(64 << 10);
        for number in 0..100 {
            put(&cache, &number.to_string(), 1, 4 << 10).await;
        }
        assert!(cache.weighted_size().await <= 64 << 10);
        put(&cache, "large", 1, 128 << 10).await;
        assert_eq!(found(&cache, "large").await, None, "not even until somebody looks after the cache");
    }

    #[tokio::test]
    async fn a_slot_that_grows_is_weighed_again() {
        let cache = TestCache::new(1 << 20);
        put(&cache, "t", 1, 10).await;
        let small = cache.weighted_size().await;
        for (at, bytes) in [(2, 100 << 10), (3, 200 << 10), (4, 10)] {
            put(&cache, "t", at, bytes).await;
            let weight = cache.weighted_size().await;
            assert!(
                weight >= bytes as u64 && weight < small + (bytes + bytes / 4) as u64,
                "{bytes}: {weight}"
            );
        }
        put(&cache, "t", 5, 2 << 20).await;
        assert_eq!((found(&cache, "t").await, cache.weighted_size().await), (None, 0));
    }

    #[tokio::test]
    async fn a_slot_that_was_dropped_does_not_come_back() {
        let cache = TestCache::new(1 << 20);
        let old = cache.get_or_add(&key("t")).await;
        cache.slots.as_ref().unwrap().invalidate(&key("t")).await;
        put(&cache, "t", 1, 1).await;
        old.lock().put(began(9), Arc::new(Bytes(100 << 10)));
        cache.weigh(&key("t"), &old).await;
        assert_eq!(found(&cache, "t").await, Some(1));
    }

    #[test]
    fn weights_are_never_less_than_the_bytes() {
        for bytes in [0, 1, 3072, 3073, 100_000, 64 << 20, usize::MAX] {
            let weight = weight(bytes) as usize;
            assert!(weight >= bytes.min(u32::MAX as usize), "{bytes}");
            assert!(weight <= bytes.saturating_add(bytes / 4 + ENTRY_BYTES + SMALLEST_STEP), "{bytes}");
        }
    }

    #[tokio::test]
    async fn the_load_that_began_last_wins_in_any_order() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let cache = TestCache::new(1 << 20);
            for at in order {
                put(&cache, "t", at, at as usize).await;
            }
            assert_eq!(found(&cache, "t").await, Some(3), "{order:?}");
        }
    }

    #[test]
    fn what_a_later_load_found_right_stays_too() {
        let mut newest = Newest::default();
        newest.put(began(1), Arc::new(Bytes(1)));
        let found =
            newest.get_or_put(began(3), |bytes| bytes.0 == 1, || -> Result<_, Infallible> { unreachable!() });
        assert_eq!(found, Ok(Arc::new(Bytes(1))));
        newest.put(began(2), Arc::new(Bytes(2)));
        assert_eq!(newest.get().unwrap().0, 1);
    }

    #[test]
    fn what_is_not_right_is_made_and_an_error_changes_nothing() {
        let mut newest = Newest::default();
        newest.put(began(2), Arc::new(Bytes(2)));
        assert_eq!(newest.get_or_put(began(3), |_| false, || Err("no")), Err("no"));
        assert_eq!(newest.get().unwrap().0, 2);
        let make = |bytes| move || Ok::<_, Infallible>(Bytes(bytes));
        assert_eq!(newest.get_or_put(began(1), |_| false, make(1)).unwrap().0, 1, "for the one that asks");
        assert_eq!(newest.get().unwrap().0, 2, "and not for those that came later");
        assert_eq!(newest.get_or_put(began(3), |_| false, make(3)).unwrap().0, 3);
        assert_eq!(newest.get().unwrap().0, 3);
    }

    #[test]
    fn of_many_at_the_same_time_one_does_the_work() {
        let slot = Slot::<Newest<Arc<Bytes>>>::default();
        let made = AtomicU32::new(0);
        let make = || {
            made.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok::<_, Infallible>(Bytes(7))
        };
        std::thread::scope(|scope| {
            for at in 0..8 {
                let (slot, make) = (&slot, &make);
                scope.spawn(move || {
                    let got = slot.lock().get_or_put(began(at), |bytes| bytes.0 == 7, make);
                    assert_eq!(got.unwrap().0, 7);
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_leaves_the_slot_to_others() {
        let slot = Slot::<Newest<Arc<Bytes>>>::default();
        slot.lock().put(began(1), Arc::new(Bytes(1)));
        let fill = || {
            slot.lock().get_or_put(began(2), |_| false, || -> Result<_, Infallible> { panic!("on purpose") })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fill)).is_err());
        let got = slot.lock().get_or_put(began(3), |bytes| bytes.0 == 1, || Ok::<_, Infallible>(Bytes(9)));
        assert_eq!(got.unwrap().0, 1);
    }

    /// Requests that are dropped while a slot is being added leave the key to the others.
    #[tokio::test]
    async fn a_dropped_request_leaves_its_key_to_others() {
        let cache = TestCache::new(1 << 20);
        for polls in 0..4 {
            let name = polls.to_string();
            let key = key(&name);
            {
                let mut adding = std::pin::pin!(cache.get_or_add(&key));
                for _ in 0..polls {
                    if futures_util::poll!(adding.as_mut()).is_ready() {
                        break;
                    }
                }
            }
            put(&cache, &name, 1, 5).await;
            assert_eq!(found(&cache, &name).await, Some(5));
        }
    }
}
