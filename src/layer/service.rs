use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, request::Parts, uri::PathAndQuery};
use http_body::Body;
use tower::Service;
use tracing::Instrument;

use super::{
    body::{RequestBody, ResponseBody},
    commit::RestrictedCommits,
    error::{Refusal, RefusalCode, RequestId},
    exchange::{Exchange, Outcomes, Reply, Stop, catch_panic},
    future::ResponseFuture,
    headers,
    inner::{Inner, InnerService},
    kept::KnownLoad,
    layer::Shared,
    names::NameSyntax,
    route::{Operation, OperationKind, Route},
    unrecognized,
};
use crate::{cache::LoadKey, policy::TableIdent, table::KnownMetadata};

/// The service that [`ReadRestrictionsLayer`](super::ReadRestrictionsLayer) puts around an inner one.
#[derive(Clone)]
pub struct ReadRestrictionsService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> ReadRestrictionsService<S> {
    pub(super) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for ReadRestrictionsService<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(RequestBody::untouched);
        let task = match Way::of(&self.shared, &request) {
            Way::Through => return ResponseFuture::pass_through(self.inner.call(request)),
            Way::ThroughAsItIs => {
                headers::remove_method_overrides(request.headers_mut());
                return ResponseFuture::pass_through(self.inner.call(request));
            }
            Way::ByUs(task) => task,
        };
        headers::remove_method_overrides(request.headers_mut());
        // The service that was driven to readiness is the one that is called.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        let inner = InnerService::new(ready, self.inner.clone());
        ResponseFuture::governed(Box::pin(run(self.shared.clone(), inner, task, request)))
    }
}

impl<S: fmt::Debug> fmt::Debug for ReadRestrictionsService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRestrictionsService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Which way a request goes.
enum Way {
    /// None of ours.
    Through,
    /// None of ours either, but it may not pretend to be of another method.
    ThroughAsItIs,
    /// There is something to do about it.
    ByUs(Task),
}

/// What is to be done about a request.
enum Task {
    /// An operation on a table.
    Govern(Target),
    /// Nobody recognised it: its answer is looked at.
    Watch,
    Refuse(Refusal),
}

/// An operation, and the lengths of the parts of the path.
struct Target {
    operation: OperationKind,
    /// What stands before `namespaces` or `transactions`.
    lead: usize,
    namespace: usize,
    /// Nothing where the path names none.
    table: usize,
    /// The whole path of the table.
    table_path: usize,
}

impl Way {
    fn of<B>(shared: &Shared, request: &Request<B>) -> Self {
        let refuse = |code, reason| Self::ByUs(Task::Refuse(Refusal::new(code, reason)));
        match Route::of(request.method(), request.uri().path()) {
            Route::Elsewhere if request.uri().path().ends_with("/tables/rename") => Self::ThroughAsItIs,
            Route::Elsewhere => Self::Through,
            Route::Passing { lead } if shared.catalog.admits(Some(lead)) => Self::ThroughAsItIs,
            Route::Unrecognized { lead } if shared.catalog.admits(lead) => Self::ByUs(Task::Watch),
            Route::Passing { .. } | Route::Unrecognized { .. } => {
                refuse(RefusalCode::UnknownCatalog, "the prefix is not a known one")
            }
            Route::Operation(Operation { kind: OperationKind::CommitTransaction, .. })
                if shared.restricted_commits == RestrictedCommits::Allow =>
            {
                Self::ThroughAsItIs
            }
            Route::Operation(operation) => Self::ByUs(Task::Govern(Target::of(operation))),
            Route::Ambiguous => refuse(
                RefusalCode::AmbiguousPath,
                "the path is not the exact spelling of an operation that some router would find in it",
            ),
        }
    }
}

impl Target {
    fn of(operation: Operation<'_>) -> Self {
        Self {
            operation: operation.kind,
            lead: operation.lead.len(),
            namespace: operation.namespace.len(),
            table: operation.table.len(),
            table_path: operation.table_path_length(),
        }
    }

    /// The table that a path names, as the inner service reads it; without a name where the path has none.
    fn table(&self, names: &NameSyntax, catalog: &str, path: &str) -> Option<TableIdent> {
        let namespace = self.lead + "/namespaces/".len();
        let (namespace, name) = match self.operation {
            OperationKind::CommitTransaction => (Vec::new(), String::new()),
            OperationKind::CreateTable | OperationKind::RegisterTable => {
                (names.namespace(&path[namespace..namespace + self.namespace])?, String::new())
            }
            _ => (
                names.namespace(&path[namespace..namespace + self.namespace])?,
                names.name(&path[self.table_path - self.table..self.table_path])?,
            ),
        };
        Some(TableIdent { catalog: catalog.to_owned(), namespace, name })
    }
}

/// Carries a task out.
async fn run<I: Inner>(
    shared: Arc<Shared>,
    inner: I,
    task: Task,
    request: Request<RequestBody<I::RequestBody>>,
) -> Result<Reply<I>, I::Error> {
    let request_id = RequestId::of(request.headers());
    let outcome = match task {
        Task::Govern(target) => catch_panic(govern(shared.clone(), inner, target, request)).await,
        Task::Watch => unrecognized::watch(inner, request, shared.max_body_bytes).await,
        Task::Refuse(refusal) => Err(refusal.into()),
    };
    match outcome {
        Ok(reply) => Ok(reply),
        Err(Stop::Inner(error)) => Err(error),
        Err(Stop::Refused(refusal)) => {
            tracing::debug!(code = refusal.code.as_str(), reason = &*refusal.detail, "refused");
            Ok(shared.refuse(&refusal, request_id.as_ref()).map(ResponseBody::whole))
        }
    }
}

/// Governs an operation, and tells what was decided.
async fn govern<I: Inner>(
    shared: Arc<Shared>,
    inner: I,
    target: Target,
    request: Request<RequestBody<I::RequestBody>>,
) -> Outcomes<I, Reply<I>> {
    let (parts, body) = request.into_parts();
    let (load, known) = load_of(&shared, &target, &parts).await?;
    let table = load.table();
    let span = tracing::info_span!(
        "read_restrictions",
        operation = target.operation.as_str(),
        catalog = table.catalog,
        namespace = ?table.namespace,
        table = table.name,
    );
    let mut exchange = Exchange::new(shared.clone(), inner, target.operation, load, known, &parts);
    let request = Request::from_parts(parts, body);
    async {
        let outcome = catch_panic(exchange.operate(request)).await;
        match &outcome {
            Ok(reply) => exchange.decide(None, Some(reply.status().as_u16())),
            Err(Stop::Refused(refusal)) => exchange.decide(Some(refusal), Some(shared.status_of(refusal))),
            Err(Stop::Inner(_)) => exchange.decide(None, None),
        }
        outcome
    }
    .instrument(span)
    .await
}

/// What a request is about, and the metadata that are known of it. Names that were read before are not read again.
async fn load_of(
    shared: &Shared,
    target: &Target,
    request: &Parts,
) -> Result<(LoadKey, Option<KnownMetadata>), Refusal> {
    let path = request.uri.path();
    let catalog = shared.catalog.of(&path[..target.lead], request);
    let path_and_query = request.uri.path_and_query().map_or(path, PathAndQuery::as_str);
    let beside_path = catalog.as_deref().filter(|_| !shared.catalog.is_settled_by_path());
    let text = LoadKey::text(beside_path, path_and_query);
    if target.operation == OperationKind::LoadTable
        && catalog.is_some()
        && let Some(slot) = shared.caches.metadata.get(&*text).await
        && let Some(KnownLoad { key, metadata }) = slot.lock().get().cloned()
    {
        return Ok((key, Some(metadata)));
    }
    let ambiguous =
        || Refusal::new(RefusalCode::AmbiguousPath, "a name can be read in several ways, or in none");
    let table =
        target.table(&shared.names, catalog.as_deref().unwrap_or_default(), path).ok_or_else(ambiguous)?;
    if catalog.is_none() {
        return Err(Refusal::new(RefusalCode::UnknownCatalog, "the request is about no known catalog"));
    }
    Ok((LoadKey::new(&text, path_and_query, target.lead, target.table_path, table), None))
}

impl<I: Inner> Exchange<I> {
    async fn operate(&mut self, request: Request<RequestBody<I::RequestBody>>) -> Outcomes<I, Reply<I>> {
        match self.operation {
            OperationKind::LoadTable => self.load_table(request).await,
            OperationKind::TableExists => self.table_exists(request).await,
            OperationKind::CreateTable | OperationKind::RegisterTable => self.create_table(request).await,
            OperationKind::LoadCredentials
            | OperationKind::PlanTableScan
            | OperationKind::FetchPlanningResult
            | OperationKind::FetchScanTasks
            | OperationKind::Sign => self.gate(request).await,
            OperationKind::CommitTable => self.commit_table(request).await,
            OperationKind::CommitTransaction => self.commit_transaction(request).await,
        }
    }
}
