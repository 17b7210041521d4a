use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::source::{Digest, Revision};

/// One snapshot of groups and their members: flat, and names are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    members: BTreeMap<Arc<str>, BTreeSet<String>>,
    revision: Revision,
}

impl Groups {
    /// The groups that exist, with their members. Members that are given twice count once, and so do groups.
    pub fn new<N, M, T>(groups: impl IntoIterator<Item = (N, M)>) -> Self
    where
        N: Into<String>,
        M: IntoIterator<Item = T>,
        T: Into<String>,
    {
        let mut members: BTreeMap<Arc<str>, BTreeSet<String>> = BTreeMap::new();
        for (name, names) in groups {
            let name: String = name.into();
            members.entry(name.into()).or_default().extend(names.into_iter().map(Into::into));
        }
        let groups: Vec<_> = members.iter().collect();
        let revision = Digest::new("groups-v1")
            .list(&groups, |digest, (name, members)| {
                digest.text(name).set(members.iter().map(String::as_str))
            })
            .revision();
        Self { members, revision }
    }

    /// No group exists.
    pub fn none() -> Self {
        Self::new(std::iter::empty::<(String, Vec<String>)>())
    }

    /// The names of the groups that exist, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(|name| &**name)
    }

    /// The members of a group; `None` when there is no such group.
    pub fn members(&self, group: &str) -> Option<&BTreeSet<String>> {
        self.members.get(group)
    }

    /// A group with its name as it is kept here.
    pub(super) fn get(&self, group: &str) -> Option<(&Arc<str>, &BTreeSet<String>)> {
        self.members.get_key_value(group)
    }

    /// The digest of names and members: equal groups have equal revisions.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }
}
