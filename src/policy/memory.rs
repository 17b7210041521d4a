use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{
    governance::Governance,
    source::{EffectivePolicies, PolicySource, TableRequest},
};
use crate::{
    identity::{Directory, RequestUser},
    source::{BoxFuture, SourceError},
};

/// A [`Governance`] in memory that can be replaced, whole, while requests are served.
///
/// Clones share the same model.
#[derive(Clone, Debug)]
pub struct InMemoryGovernance(Arc<ArcSwap<Governance>>);

impl InMemoryGovernance {
    /// Puts a model in force.
    pub fn new(governance: Governance) -> Self {
        governance.count_from_zero();
        Self(Arc::new(ArcSwap::from_pointee(governance)))
    }

    /// The model in force.
    pub fn current(&self) -> Arc<Governance> {
        self.0.load_full()
    }

    /// Puts another model in force, for every load whose policies are asked for from now on.
    pub fn replace(&self, governance: Governance) {
        governance.count_from_zero();
        self.0.store(Arc::new(governance));
    }

    /// An identity source: the user as `user` finds it, the groups of the model in force.
    pub fn directory(&self, user: RequestUser) -> Directory {
        let model = self.clone();
        Directory::following(user, move || Arc::clone(model.0.load().groups()))
    }
}

impl PolicySource for InMemoryGovernance {
    fn effective_policies<'a>(
        &'a self,
        request: TableRequest<'a>,
    ) -> BoxFuture<'a, Result<Arc<EffectivePolicies>, SourceError>> {
        self.0.load().answer(request)
    }
}
