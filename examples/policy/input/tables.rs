//! The folder of tables, walked one file at a time: `<catalog>/<namespace>/…/<table>.json`.

use std::{
    ffi::OsStr,
    fs::{self, DirEntry},
    io,
    path::{Path, PathBuf},
};

use iceberg_read_restrictions::policy::TableIdent;
use percent_encoding::percent_decode_str;

use super::Failure;

/// What is found in the folder.
pub enum Entry {
    /// A table.
    Table { ident: TableIdent, path: PathBuf },
    /// Something that is no table and looks as if it should be one.
    Skipped { path: PathBuf, why: &'static str },
}

/// Walks the folder in the order of the names. Of the files only those are kept, by name, that lie in the folders on the
/// way to the current one.
pub fn walk(folder: &Path) -> Result<impl Iterator<Item = Result<Entry, Failure>>, Failure> {
    Ok(Walk { levels: vec![list(folder)?], names: Vec::new() })
}

struct Walk {
    /// What is left to visit in each folder on the way, the next one last.
    levels: Vec<Vec<DirEntry>>,
    /// The decoded names of these folders, but for the first.
    names: Vec<String>,
}

impl Iterator for Walk {
    type Item = Result<Entry, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(entry) = self.levels.last_mut()?.pop() else {
                self.levels.pop();
                self.names.pop();
                continue;
            };
            match self.visit(&entry) {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}

impl Walk {
    fn visit(&mut self, entry: &DirEntry) -> Result<Option<Entry>, Failure> {
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
        let skipped = |why| Ok(Some(Entry::Skipped { path: path.clone(), why }));
        if kind.is_dir() {
            let Some(name) = decoded(&entry.file_name()) else { return skipped("its name is not UTF-8") };
            self.levels.push(list(&path)?);
            self.names.push(name);
            return Ok(None);
        }
        if path.extension() != Some(OsStr::new("json")) {
            return if kind.is_symlink() && path.is_dir() {
                skipped("links to folders are not followed")
            } else {
                Ok(None)
            };
        }
        let Some(name) = path.file_stem().and_then(decoded) else { return skipped("its name is not UTF-8") };
        match self.names.as_slice() {
            [catalog, namespace @ ..] if !namespace.is_empty() => {
                Ok(Some(Entry::Table { ident: TableIdent::new(catalog, namespace, name), path }))
            }
            _ => skipped("a table lies at <catalog>/<namespace>/…/<table>.json"),
        }
    }
}

/// The entries of a folder, the first one last. Hidden ones are none of ours.
fn list(folder: &Path) -> Result<Vec<DirEntry>, Failure> {
    let read = || -> io::Result<Vec<DirEntry>> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.retain(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
        Ok(entries)
    };
    read().map_err(|error| unreadable(folder, &error))
}

fn decoded(name: &OsStr) -> Option<String> {
    Some(percent_decode_str(name.to_str()?).decode_utf8().ok()?.into_owned())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::input(format!("{} cannot be read: {error}", path.display()))
}
