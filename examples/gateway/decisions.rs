//! Decisions: counted always, printed with `--decisions`.

use std::io::{Write, stderr};

use iceberg_read_restrictions::{
    layer::{Decision, Decisions, RefusalCode},
    resolve::Outcome,
};

/// Takes note of every decision of the layer.
#[derive(Clone, Copy, Debug)]
pub struct DecisionLog {
    /// Whether each is printed on stderr, as one line of JSON.
    pub print: bool,
}

impl Decisions for DecisionLog {
    fn decided(&self, decision: &Decision) {
        let outcome = match decision.outcome {
            Outcome::Ungoverned => "ungoverned",
            Outcome::Unrestricted => "unrestricted",
            Outcome::Restricted => "restricted",
            Outcome::Refused => "refused",
        };
        let code = decision.code.map_or("", RefusalCode::as_str);
        metrics::counter!("gateway_governed_loads_total", "outcome" => outcome, "code" => code).increment(1);
        if self.print {
            match serde_json::to_string(decision) {
                // Nobody may be reading; that is no reason not to decide.
                Ok(line) => drop(writeln!(stderr(), "{line}")),
                Err(error) => tracing::error!(%error, "a decision cannot be written as JSON"),
            }
        }
    }
}
