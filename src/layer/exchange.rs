//! One request to a governed operation on its way: the steps that all operations share.

use std::{fmt::Write, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use http::{Request, Response, request::Parts};

use super::{
    body::{RequestBody, ResponseBody},
    capability::Reader,
    decision::{Decision, ReportOnly, Revisions},
    error::{Refusal, RefusalCode, RequestId},
    headers,
    inner::Inner,
    kept::{ForCaller, Resolved, Revalidation},
    layer::Shared,
    measure::{self, Source, Work},
    route::OperationKind,
};
use crate::{
    cache::{Began, CallerKey, LoadKey, Slot},
    identity::{Memberships, Subject},
    policy::{Columns, EffectivePolicies, ObjectName, TableRequest},
    resolve::{Outcome, Reported, Resolution, ResolveRequest, Resolver},
    source::{BoxFuture, Digest, SourceError},
    table::{KnownMetadata, LoadResult, Schema},
};

/// Why an operation ends before its answer.
pub(super) enum Stop<E> {
    /// The inner service failed.
    Inner(E),
    /// The layer refuses.
    Refused(Refusal),
}

impl<E> From<Refusal> for Stop<E> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The answer to the caller.
pub(super) type Reply<I> = Response<ResponseBody<<I as Inner>::ResponseBody>>;

/// What a step of an operation comes to.
pub(super) type Outcomes<I, T> = Result<T, Stop<<I as Inner>::Error>>;

/// A request with everything that was found out about it so far.
pub(super) struct Exchange<I> {
    pub shared: Arc<Shared>,
    inner: I,
    pub operation: OperationKind,
    pub load: LoadKey,
    /// The metadata that were read last for that load.
    pub known: Option<KnownMetadata>,
    /// When the inner service was called last.
    pub began: Began,
    /// All lines of `X-Iceberg-Access-Delegation`.
    pub delegation: Option<Arc<[u8]>>,
    pub reader: Reader,
    request_id: Option<RequestId>,
    caller: Caller,
    /// What the policy source answered for what was known of the table before it was loaded.
    pub asked: Option<(Arc<Revalidation>, Arc<EffectivePolicies>)>,
    /// What is kept for this caller.
    pub slot: Option<(CallerKey, Arc<Slot<ForCaller>>)>,
    record: Record,
}

/// Who asks.
enum Caller {
    /// Nobody needed to know yet.
    Unasked(BoxFuture<'static, Result<Option<Subject>, SourceError>>),
    /// The subject, as one identity snapshot knows it.
    Known(Identity),
    /// There is no subject, or the source could not tell.
    Unknown(Refusal),
}

/// A subject with the answers for the groups that were asked.
pub(super) struct Identity {
    pub subject: Subject,
    /// The policies whose groups were asked.
    asked: Option<Arc<EffectivePolicies>>,
    pub memberships: Option<Memberships>,
}

/// What the decision event tells.
#[derive(Default)]
struct Record {
    policies: Option<Arc<EffectivePolicies>>,
    resolved: Option<Arc<Resolved>>,
    /// For a table that only report-only policies reach.
    reported: Vec<Reported>,
}

impl<I: Inner> Exchange<I> {
    /// Takes from the request what the later steps need. Nothing is awaited yet.
    pub(super) fn new(
        shared: Arc<Shared>,
        inner: I,
        operation: OperationKind,
        load: LoadKey,
        known: Option<KnownMetadata>,
        request: &Parts,
    ) -> Self {
        let subject = shared.identity.subject(request);
        Self {
            inner,
            operation,
            load,
            known,
            began: Began::default(),
            delegation: headers::delegation(&request.headers),
            reader: shared.reader(request),
            request_id: RequestId::of(&request.headers),
            caller: Caller::Unasked(subject),
            asked: None,
            slot: None,
            record: Record::default(),
            shared,
        }
    }

    /// Calls the inner service.
    pub(super) async fn call(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Response<I::ResponseBody>> {
        self.began = self.shared.caches.calls.begin();
        self.inner.call(request).await.map_err(Stop::Inner)
    }

    /// Calls the inner service and hands its answer on, whatever it is.
    pub(super) async fn pass(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
    ) -> Outcomes<I, Reply<I>> {
        Ok(self.call(request).await?.map(ResponseBody::untouched))
    }

    /// The effective policies of a table whose load result was read. The source is not asked the same again.
    pub(super) async fn policies_of(&mut self, load: &LoadResult) -> Result<Arc<EffectivePolicies>, Refusal> {
        if let Some((known, policies)) = &self.asked
            && known.table.table_uuid() == load.table_uuid()
            && column_names(known.table.schema()).eq(column_names(load.schema()))
        {
            return Ok(policies.clone());
        }
        let columns: Vec<&str> = column_names(load.schema()).collect();
        self.policies(load.table_uuid(), Columns::Known(&columns)).await
    }

    /// The effective policies of the table by its name alone.
    pub(super) async fn policies_by_name(&mut self) -> Result<Arc<EffectivePolicies>, Refusal> {
        self.policies(None, Columns::Unknown).await
    }

    pub(super) async fn policies(
        &mut self,
        uuid: Option<&str>,
        columns: Columns<'_>,
    ) -> Result<Arc<EffectivePolicies>, Refusal> {
        let request = TableRequest { table: self.load.table(), uuid, columns };
        let shared = &self.shared;
        let policies =
            in_time(Source::Policy, shared.source_timeout, shared.policies.effective_policies(request))
                .await?;
        self.record.policies = Some(policies.clone());
        Ok(policies)
    }

    /// The subject; a second call gives the same one.
    pub(super) async fn subject(&mut self) -> Result<&mut Identity, Refusal> {
        if let Caller::Unasked(subject) = &mut self.caller {
            self.caller = match in_time(Source::Identity, self.shared.source_timeout, subject).await {
                Ok(Some(subject)) if !subject.is_blank() => Caller::Known(Identity::new(subject)),
                Ok(_) => Caller::Unknown(Refusal::new(
                    RefusalCode::SubjectMissing,
                    "the request has no authenticated subject",
                )),
                Err(refusal) => Caller::Unknown(refusal),
            };
        }
        match &mut self.caller {
            Caller::Known(identity) => Ok(identity),
            Caller::Unknown(refusal) => Err(refusal.clone()),
            Caller::Unasked(_) => Err(subject_not_asked()),
        }
    }

    /// The subject, and the answers for all groups that the policies name. Answers that only report-only policies wait
    /// for may fail to come: that is reported, and refuses nothing.
    pub(super) async fn identify(&mut self, policies: &Arc<EffectivePolicies>) -> Result<&Identity, Refusal> {
        let shared = self.shared.clone();
        let identity = self.subject().await?;
        let groups = identity.groups_to_ask(policies);
        if !groups.is_empty() {
            let answers = shared.identity.memberships(&identity.subject, &groups);
            let answers = in_time(Source::Identity, shared.source_timeout, answers).await;
            identity.memberships = match Resolver::needs_groups(policies) {
                true => Some(answers?),
                false => answers.ok().filter(|answers| answers.revision() == identity.subject.revision()),
            };
            identity.asked = Some(Arc::clone(policies));
        }
        Ok(identity)
    }

    /// Resolves a governed table for this caller, unless that was done before with everything the same. Of several
    /// requests at the same time one does it.
    pub(super) async fn resolve(
        &mut self,
        policies: &Arc<EffectivePolicies>,
        load: &LoadResult,
    ) -> Result<Arc<Resolved>, Refusal> {
        self.identify(policies).await?;
        let Some(key) = self.caller_key() else { return Err(subject_not_asked()) };
        let slot = self.shared.caches.callers.get_or_add(&key).await;
        let resolved = self.resolve_in(&slot, policies, load)?;
        self.shared.caches.callers.weigh(&key, &slot).await;
        self.slot = Some((key, slot));
        self.record.resolved = Some(resolved.clone());
        Ok(resolved)
    }

    fn resolve_in(
        &self,
        slot: &Slot<ForCaller>,
        policies: &Arc<EffectivePolicies>,
        load: &LoadResult,
    ) -> Result<Arc<Resolved>, Refusal> {
        let Caller::Known(identity) = &self.caller else { return Err(subject_not_asked()) };
        let resolver = self.shared.resolver;
        let resolve = || {
            let request = identity.request(policies, load);
            let resolution = measure::timed(Work::Resolve, || resolver.resolve(request))?;
            let reported = resolver.report(request);
            Ok(Resolved::new(resolution, reported, policies, identity, load))
        };
        let follows = |resolved: &Resolved| resolved.follows_from(policies, identity, load);
        slot.lock().resolved.get_or_put(self.began, follows, resolve)
    }

    /// Where to look for what is kept for this caller, once the subject is known.
    pub(super) fn caller_key(&self) -> Option<CallerKey> {
        let Caller::Known(identity) = &self.caller else { return None };
        Some(CallerKey {
            load: self.load.clone(),
            subject: Arc::clone(identity.subject.shared_name()),
            delegation: self.delegation.clone(),
        })
    }

    /// Resolves what the report-only policies of an ungoverned table would have done.
    pub(super) async fn report_only(&mut self, policies: &Arc<EffectivePolicies>, load: &LoadResult) {
        if policies.all().next().is_none() {
            return;
        }
        // Without a subject the report says so; the load does not depend on it.
        let _ = self.identify(policies).await;
        let request = match &self.caller {
            Caller::Known(identity) => identity.request(policies, load),
            Caller::Unasked(_) | Caller::Unknown(_) => {
                ResolveRequest { policies, subject: None, memberships: None, table: load }
            }
        };
        self.record.reported = self.shared.resolver.report(request);
    }

    /// Whether this caller may receive what was resolved: nothing to enforce, or a reader that declares and is
    /// trusted.
    pub(super) fn admit(&self, resolution: &Resolution) -> Result<(), Refusal> {
        match resolution.member() {
            Some(_) => self.admit_reader(),
            None => Ok(()),
        }
    }

    /// The second half: there may be something to enforce.
    pub(super) fn admit_reader(&self) -> Result<(), Refusal> {
        match self.reader {
            Reader::Trusted => Ok(()),
            Reader::Undeclared => {
                Err(Refusal::new(RefusalCode::CapabilityRequired, "the client declares no capability"))
            }
            Reader::Untrusted => {
                Err(Refusal::new(RefusalCode::ReaderNotTrusted, "the reader is not a trusted one"))
            }
        }
    }

    /// Tells everybody who wants to know what was decided.
    pub(super) fn decide(&self, refusal: Option<&Refusal>, status: Option<u16>) {
        let outcome = self.outcome(refusal);
        measure::decided(self.operation, outcome, refusal.map(|refusal| refusal.code));
        measure::matched(self.record.resolved.iter().flat_map(|resolved| resolved.resolution.policies()));
        let reported = self.record.reported();
        measure::matched(reported.iter().map(|reported| &reported.policy));
        measure::reported(reported);
        measure::snapshot_age(&*self.shared.policies);
        if outcome == Outcome::Ungoverned && reported.is_empty() {
            return;
        }
        if !self.shared.is_anybody_listening() {
            return;
        }
        let resolution = self.record.resolved.as_ref().map(|resolved| &resolved.resolution);
        let subject = match &self.caller {
            Caller::Known(identity) => Some(&identity.subject),
            Caller::Unasked(_) | Caller::Unknown(_) => None,
        };
        let table = self.load.table();
        self.shared.decided(&Decision {
            outcome,
            code: refusal.map(|refusal| refusal.code),
            reason: refusal.map(|refusal| refusal.detail.to_string()),
            status,
            operation: self.operation.as_str(),
            table: ObjectName::table(&table.catalog, &table.namespace, &table.name),
            subject: subject.map(|subject| subject.name().to_owned()),
            policies: resolution
                .map(|resolution| resolution.policies().into_iter().cloned().collect())
                .unwrap_or_default(),
            exempt: resolution.map(|resolution| resolution.exempt().to_vec()).unwrap_or_default(),
            signature: resolution.and_then(signature),
            report_only: reported.iter().map(ReportOnly::from).collect(),
            revisions: Revisions {
                policy: self.record.policies.as_ref().map(|policies| policies.revision.clone()),
                identity: subject.map(|subject| subject.revision().clone()),
            },
            source_age: self.shared.policies.status().age,
            request_id: self.request_id.as_ref().map(|RequestId(id)| id.to_string()),
        });
    }

    fn outcome(&self, refusal: Option<&Refusal>) -> Outcome {
        match (refusal, &self.record.resolved) {
            (Some(_), _) => Outcome::Refused,
            (None, Some(resolved)) if resolved.resolution.member().is_some() => Outcome::Restricted,
            (None, Some(_)) => Outcome::Unrestricted,
            (None, None) => Outcome::Ungoverned,
        }
    }
}

impl Record {
    fn reported(&self) -> &[Reported] {
        match &self.resolved {
            Some(resolved) => &resolved.reported,
            None => &self.reported,
        }
    }
}

impl Identity {
    /// A subject of which no group was asked yet.
    pub(super) fn new(subject: Subject) -> Self {
        Self { subject, asked: None, memberships: None }
    }

    /// All groups that the policies name, or none if all of them were asked for already.
    fn groups_to_ask<'a>(&self, policies: &'a Arc<EffectivePolicies>) -> Vec<&'a str> {
        if self.asked.as_ref().is_some_and(|asked| Arc::ptr_eq(asked, policies)) {
            return Vec::new();
        }
        let groups = Resolver::groups(policies);
        let asked = self.asked.as_ref().map(|asked| Resolver::groups(asked)).unwrap_or_default();
        if groups.iter().all(|group| asked.contains(group)) { Vec::new() } else { groups }
    }

    fn request<'a>(&'a self, policies: &'a EffectivePolicies, table: &'a LoadResult) -> ResolveRequest<'a> {
        ResolveRequest {
            policies,
            subject: Some(&self.subject),
            memberships: self.memberships.as_ref(),
            table,
        }
    }
}

fn subject_not_asked() -> Refusal {
    Refusal::new(RefusalCode::InternalError, "the subject was not asked")
}

fn column_names(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.fields().map(|field| field.name)
}

/// The digest of the restrictions that an answer carries.
fn signature(resolution: &Resolution) -> Option<String> {
    let member = resolution.member()?;
    Some(Digest::new("iceberg-read-restrictions/answer/1").text(member).revision().to_string())
}

/// Awaits a source, for no longer than `limit`.
async fn in_time<T>(
    source: Source,
    limit: Duration,
    answer: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, Refusal> {
    let answer = tokio::time::timeout(limit, answer).await;
    measure::called(source, !matches!(answer, Ok(Ok(_))));
    let source = source.as_str();
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Refusal::new(
            RefusalCode::SourceUnavailable,
            format!("the {source} source failed: {}", with_causes(&error)),
        )),
        Err(_) => Err(Refusal::new(
            RefusalCode::SourceUnavailable,
            format!("the {source} source took longer than {limit:?}"),
        )),
    }
}

/// An error and what it came from, in one line.
fn with_causes(error: &SourceError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Runs an operation; a panic in what users plug in ends this request, and nothing of the inner answer gets out.
///
/// No `async fn`, which would be twice as large as what it runs.
pub(super) fn catch_panic<T, E>(
    operation: impl Future<Output = Result<T, Stop<E>>>,
) -> impl Future<Output = Result<T, Stop<E>>> {
    AssertUnwindSafe(operation).catch_unwind().map(|outcome| {
        outcome.unwrap_or_else(|panic| {
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no message");
            Err(Refusal::new(RefusalCode::InternalError, format!("a panic: {message}")).into())
        })
    })
}
