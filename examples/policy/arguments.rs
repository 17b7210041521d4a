//! The command line.

use std::{convert::Infallible, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use iceberg_read_restrictions::resolve::{ConflictRule, Resolver, UpstreamRestrictions};

/// Check, explain, simulate and format policy-on-tag governance files for Iceberg read restrictions.
#[derive(Debug, Parser)]
#[command(
    name = "policy",
    version,
    after_help = "Exit codes: 0 done; 1 the answer is \"no\" (a check failed, a load would be refused, something \
                  would become visible); 2 wrong use or unreadable input."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find everything that is wrong with a governance file and the tables that it governs
    Check(CheckArguments),
    /// Tell what one subject gets on one table, and why
    Explain(ExplainArguments),
    /// Tell what another governance file would change, for whom and on which tables
    Simulate(SimulateArguments),
    /// Bring a governance file into canonical layout
    Format(FormatArguments),
}

/// A folder of tables lies as `<catalog>/<namespace>/…/<table>.json`, each file a load result or a table
/// metadata document. `%2F` and the like in a name stand for the character.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The governance file, .toml or .json
    #[arg(long, value_name = "FILE")]
    pub governance: PathBuf,
    /// A folder of tables, `<catalog>/<namespace>/…/<table>.json`: load results or table metadata
    #[arg(long, value_name = "DIR")]
    pub tables: Option<PathBuf>,
    /// What subjects are expected to get, in a TOML file
    #[arg(long, value_name = "FILE", requires = "tables")]
    pub expect: Option<PathBuf>,
    /// Groups are defined somewhere else: do not complain about those that the file does not define
    #[arg(long)]
    pub groups_elsewhere: bool,
    /// Warnings fail the check, too
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub rules: RuleArguments,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The governance file, .toml or .json
    #[arg(long, value_name = "FILE")]
    pub governance: PathBuf,
    /// The table: a load result, or a table metadata document
    #[arg(long, value_name = "FILE")]
    pub load_result: PathBuf,
    /// The catalog that the table is in
    #[arg(long, value_name = "NAME")]
    pub catalog: String,
    /// The namespace that the table is in: once for each level, the outermost first
    #[arg(long, value_name = "LEVEL", required = true)]
    pub namespace: Vec<String>,
    /// The table's name
    #[arg(long, value_name = "NAME")]
    pub table: String,
    /// Who asks; without it, a request without an authenticated subject is explained
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub subject: String,
    #[command(flatten)]
    pub rules: RuleArguments,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// The governance file in force, .toml or .json
    #[arg(long, value_name = "FILE")]
    pub before: PathBuf,
    /// The governance file that is to replace it
    #[arg(long, value_name = "FILE")]
    pub after: PathBuf,
    /// A folder of tables, `<catalog>/<namespace>/…/<table>.json`: load results or table metadata
    #[arg(long, value_name = "DIR")]
    pub tables: PathBuf,
    /// The subjects to try, separated by commas or given one by one
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = trimmed, required = true)]
    pub subjects: Vec<String>,
    #[command(flatten)]
    pub rules: RuleArguments,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct FormatArguments {
    /// The governance file, .toml or .json
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the file in place of printing it
    #[arg(long, conflicts_with = "check")]
    pub write: bool,
    /// Write nothing; exit with 1 when the file is not in canonical layout
    #[arg(long)]
    pub check: bool,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
}

/// A name in a list may have a blank before it, as people write lists.
fn trimmed(name: &str) -> Result<String, Infallible> {
    Ok(name.trim().to_owned())
}

/// The rules of the layer that the answer depends on.
#[derive(Debug, Args)]
pub struct RuleArguments {
    /// What counts as a conflict between policies
    #[arg(long, value_enum, value_name = "RULE", default_value = "by-signature")]
    pub conflict: Conflict,
    /// What happens to restrictions that the catalog sends itself
    #[arg(long, value_enum, value_name = "RULE", default_value = "refuse")]
    pub upstream_restrictions: Upstream,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Conflict {
    /// Policies that resolve to different restrictions
    BySignature,
    /// Any two policies on one target
    ByPolicy,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Upstream {
    /// They must equal ours
    Refuse,
    /// Filters are joined with `and`, actions are united
    Conjoin,
}

impl RuleArguments {
    pub fn resolver(&self) -> Resolver {
        let conflict = match self.conflict {
            Conflict::BySignature => ConflictRule::BySignature,
            Conflict::ByPolicy => ConflictRule::ByPolicy,
        };
        let upstream = match self.upstream_restrictions {
            Upstream::Refuse => UpstreamRestrictions::Refuse,
            Upstream::Conjoin => UpstreamRestrictions::Conjoin,
        };
        Resolver::new().with_conflict(conflict).with_upstream_restrictions(upstream)
    }
}
