use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
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
    layer::Shared,
    route::{Operation, OperationKind, Route},
    unrecognized,
};
use crate::policy::TableIdent;

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

/// An operation with the names that it is about, read from the path.
struct Target {
    operation: OperationKind,
    /// How much of the path stands before `namespaces` or `transactions`.
    lead: usize,
    /// How much of the path is that of the table.
    table_path: usize,
    namespace: Vec<String>,
    /// Empty where the path names none.
    name: String,
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
            Route::Operation(operation) => match Target::of(shared, operation) {
                Some(target) => Self::ByUs(Task::Govern(target)),
                None => refuse(RefusalCode::AmbiguousPath, "a name can be read in several ways, or in none"),
            },
            Route::Ambiguous => refuse(
                RefusalCode::AmbiguousPath,
                "the path is not the exact spelling of an operation that some router would find in it",
            ),
        }
    }
}

impl Target {
    fn of(shared: &Shared, operation: Operation<'_>) -> Option<Self> {
        let names = &shared.names;
        let (namespace, name) = match operation.kind {
            OperationKind::CommitTransaction => (Vec::new(), String::new()),
            OperationKind::CreateTable | OperationKind::RegisterTable => {
                (names.namespace(operation.namespace)?, String::new())
            }
            _ => (names.namespace(operation.namespace)?, names.name(operation.table)?),
        };
        Some(Self {
            operation: operation.kind,
            lead: operation.lead.len(),
            table_path: operation.table_path_length(),
            namespace,
            name,
        })
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
    let path = parts.uri.path().to_owned();
    let (lead, table_path) = (&path[..target.lead], &path[..target.table_path]);
    let catalog = shared
        .catalog
        .of(lead, &parts)
        .ok_or_else(|| Refusal::new(RefusalCode::UnknownCatalog, "the request is about no known catalog"))?;
    let table = TableIdent { catalog: catalog.into_owned(), namespace: target.namespace, name: target.name };
    let span = tracing::info_span!(
        "read_restrictions",
        operation = target.operation.as_str(),
        catalog = table.catalog,
        namespace = ?table.namespace,
        table = table.name,
    );
    let mut exchange = Exchange::new(shared.clone(), inner, target.operation, table, lead, &parts);
    let request = Request::from_parts(parts, body);
    async {
        let outcome = catch_panic(exchange.operate(request, lead, table_path)).await;
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

impl<I: Inner> Exchange<I> {
    async fn operate(
        &mut self,
        request: Request<RequestBody<I::RequestBody>>,
        lead: &str,
        table_path: &str,
    ) -> Outcomes<I, Reply<I>> {
        match self.operation {
            OperationKind::LoadTable => self.load_table(request).await,
            OperationKind::TableExists => self.table_exists(request).await,
            OperationKind::CreateTable | OperationKind::RegisterTable => self.create_table(request).await,
            OperationKind::LoadCredentials
            | OperationKind::PlanTableScan
            | OperationKind::FetchPlanningResult
            | OperationKind::FetchScanTasks
            | OperationKind::Sign => self.gate(request, table_path).await,
            OperationKind::CommitTable => self.commit_table(request, table_path).await,
            OperationKind::CommitTransaction => self.commit_transaction(request, lead).await,
        }
    }
}
