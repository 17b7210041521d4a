//! `policy explain`: what one subject gets on one table, and why.

use std::sync::Arc;

use iceberg_read_restrictions::{
    policy::{Governance, ObjectName, TableIdent},
    resolve::{ExplainRequest, Explanation, Outcome},
};

use super::{
    arguments::ExplainArguments,
    input::{self, Sources},
    output::{Colour, Failure, Output, Verdict},
};

/// Explains one load.
pub fn run(arguments: &ExplainArguments, output: &mut Output<'_>) -> Result<Verdict, Failure> {
    let sources = Sources(Arc::new(input::governance(&arguments.governance)?));
    let table = input::table(&arguments.load_result)?;
    let ident = TableIdent::new(&arguments.catalog, &arguments.namespace, &arguments.table);
    let policies = sources.policies(&ident, &table)?;
    let identity = sources.identity(&arguments.subject, &policies)?;
    let explanation = arguments.rules.resolver().explain(ExplainRequest {
        policies: &policies,
        subject: identity.subject.as_ref(),
        memberships: identity.memberships.as_ref(),
        table: table.as_ref(),
    });
    match arguments.json {
        true => output.json(&explanation)?,
        false => tell(&sources.0, &ident, &explanation, output)?,
    }
    Ok(if explanation.outcome == Outcome::Refused { Verdict::No } else { Verdict::Yes })
}

fn tell(
    governance: &Governance,
    ident: &TableIdent,
    explanation: &Explanation,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let colour = match explanation.outcome {
        Outcome::Ungoverned => Colour::Note,
        Outcome::Unrestricted | Outcome::Restricted => Colour::Good,
        Outcome::Refused => Colour::Bad,
    };
    let text = explanation.to_string();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let first = output.painted(first, colour);
    write!(output.out, "{first}\n{rest}")?;

    let inherited = governance.effective_tags(ident, None);
    let on_columns = governance.assignments().iter().filter(|assignment| {
        let ObjectName { catalog, namespace, table, column } = &*assignment.object;
        (catalog, namespace, table.as_ref()) == (&ident.catalog, &ident.namespace, Some(&ident.name))
            && column.is_some()
    });
    writeln!(output.out, "\neffective tags")?;
    let mut tags = inherited.into_iter().chain(on_columns).peekable();
    if tags.peek().is_none() {
        writeln!(output.out, "  none")?;
    }
    for assignment in tags {
        writeln!(output.out, "  {} = {:?} from {}", assignment.tag, assignment.values, assignment.object)?;
    }
    Ok(())
}
