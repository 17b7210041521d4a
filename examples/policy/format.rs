//! `policy format`: a governance file in canonical layout. What the file means does not change, and neither
//! do its comments; a file that is invalid is left alone.

mod json;
mod layout;
mod toml;

use std::fs;

use iceberg_read_restrictions::policy::{Format, Governance};
use serde::Serialize;

use super::{
    arguments::FormatArguments,
    input::GovernanceText,
    output::{Failure, Output, Verdict},
};

#[derive(Serialize)]
struct Formatted<'a> {
    file: String,
    /// Whether the file was not in canonical layout.
    changed: bool,
    text: &'a str,
}

/// Formats a file.
pub fn run(arguments: &FormatArguments, output: &mut Output<'_>) -> Result<Verdict, Failure> {
    let path = &arguments.file;
    let source = GovernanceText::read(path)?;
    let before = source.parse().map_err(|error| Failure::input(error.render()))?;
    let text = canonical(&source.text, source.format)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    unchanged(&before, &text, source.format)?;

    let changed = text != source.text;
    if arguments.write && changed {
        fs::write(path, &text)
            .map_err(|error| Failure::input(format!("{} cannot be written: {error}", path.display())))?;
    }
    if arguments.json {
        output.json(&Formatted { file: path.display().to_string(), changed, text: &text })?;
    } else if arguments.check && changed {
        writeln!(output.out, "{} is not in canonical layout", path.display())?;
    } else if !arguments.check && !arguments.write {
        output.out.write_all(text.as_bytes())?;
    }
    Ok(if arguments.check && changed { Verdict::No } else { Verdict::Yes })
}

/// The text in canonical layout.
pub fn canonical(text: &str, format: Format) -> Result<String, String> {
    match format {
        Format::Toml => toml::canonical(text),
        Format::Json => json::canonical(text),
    }
}

/// A last look, because a layout must never cost a restriction.
fn unchanged(before: &Governance, text: &str, format: Format) -> Result<(), Failure> {
    let same = Governance::parse(text, format).is_ok_and(|after| {
        (after.revision(), after.identity_revision()) == (before.revision(), before.identity_revision())
    });
    match same {
        true => Ok(()),
        false => Err(Failure::input("the canonical layout would say something else; please report this")),
    }
}
