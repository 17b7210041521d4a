//! What the program reads: governance files, load results, and the folder of tables; and how it asks the
//! same sources that the layer asks.

mod json;
mod tables;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::Request;
use iceberg_read_restrictions::{
    identity::{Directory, IdentitySource, Memberships, RequestUser, Subject},
    policy::{
        Columns, EffectivePolicies, Format, Governance, GovernanceError, PolicySource, TableIdent,
        TableRequest,
    },
    resolve::Resolver,
    table::{LoadResult, LoadResultError},
};

pub use self::tables::{Entry, walk};
use super::output::Failure;

/// The text of a governance file.
pub struct GovernanceText {
    pub path: PathBuf,
    pub text: String,
    pub format: Format,
}

impl GovernanceText {
    /// Reads a file; `.toml` and `.json` tell the format.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let format = Format::of_path(path).ok_or_else(|| {
            Failure::input(format!("{}: expected a name that ends in .toml or .json", path.display()))
        })?;
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        Ok(Self { path: path.to_owned(), text, format })
    }

    /// The model that the text describes.
    pub fn parse(&self) -> Result<Governance, GovernanceError> {
        Governance::parse(&self.text, self.format).map_err(|error| error.in_file(&self.path))
    }
}

/// Reads a governance file that has to be valid.
pub fn governance(path: &Path) -> Result<Governance, Failure> {
    GovernanceText::read(path)?.parse().map_err(|error| {
        Failure::input(format!("{} is not a valid governance file\n{}", path.display(), error.render()))
    })
}

/// A table as a file tells it; the inner result is an error when the layer could not use it.
pub type Table = Result<LoadResult, LoadResultError>;

/// Reads a load result, or a table metadata document.
pub fn table(path: &Path) -> Result<Table, Failure> {
    let body = Bytes::from(fs::read(path).map_err(|error| unreadable(path, &error))?);
    let error = match LoadResult::read(body.clone()) {
        Ok(table) => return Ok(Ok(table)),
        Err(error) => error,
    };
    let members = json::top_level_members(&body)
        .map_err(|error| Failure::input(format!("{} is not JSON: {error}", path.display())))?;
    let has = |name: &str| members.iter().any(|member| member == name);
    match has("format-version") && !has("metadata") {
        true => Ok(LoadResult::read_metadata(body)),
        false => Ok(Err(error)),
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("{} cannot be read: {error}", path.display()))
}

/// One governance model, asked through the two sources that the layer asks.
pub struct Sources(pub Arc<Governance>);

/// Everything about a subject that an answer can depend on.
pub struct Identity {
    pub subject: Option<Subject>,
    pub memberships: Option<Memberships>,
}

impl Sources {
    /// The effective policies of a table.
    pub fn policies(&self, ident: &TableIdent, table: &Table) -> Result<Arc<EffectivePolicies>, Failure> {
        let names: Vec<&str>;
        let (uuid, columns) = match table {
            Ok(table) => {
                names = table.schema().fields().map(|field| field.name).collect();
                (table.table_uuid(), Columns::Known(&names))
            }
            Err(_) => (None, Columns::Unknown),
        };
        let request = TableRequest { table: ident, uuid, columns };
        answer(self.0.effective_policies(request))
    }

    /// The subject of this name, with its answers for all groups that the policies name.
    pub fn identity(&self, name: &str, policies: &EffectivePolicies) -> Result<Identity, Failure> {
        let directory = Directory::new(RequestUser::fixed(name), Arc::clone(self.0.groups()));
        let (request, ()) = Request::new(()).into_parts();
        let Some(subject) = answer(directory.subject(&request))? else {
            return Ok(Identity { subject: None, memberships: None });
        };
        let memberships = match &*Resolver::groups(policies) {
            [] => None,
            groups => Some(answer(directory.memberships(&subject, groups))?),
        };
        Ok(Identity { subject: Some(subject), memberships })
    }
}

/// Both sources answer from memory, so their futures are ready at once.
fn answer<T, E: fmt::Display>(future: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
    match future.now_or_never() {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err(Failure::input(error.to_string())),
        None => Err(Failure::input("a source in memory did not answer")),
    }
}
