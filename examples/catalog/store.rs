//! What the catalog holds: namespaces, tables, and every metadata document that it ever wrote.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Snapshots, error::CatalogError, metadata::TableMetadata};

/// Namespace levels, outermost first.
pub type Namespace = Vec<String>;

/// The properties of a namespace or table.
pub type Properties = BTreeMap<String, String>;

/// A table by its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableName {
    pub namespace: Namespace,
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace.join("."), self.name)
    }
}

/// One version of a table.
#[derive(Clone, Debug)]
pub struct Table {
    pub metadata_location: String,
    pub metadata: Arc<TableMetadata>,
}

impl Table {
    /// The same metadata location always means the same metadata.
    pub fn etag(&self, snapshots: Snapshots) -> String {
        let mode = match snapshots {
            Snapshots::All => "all",
            Snapshots::Refs => "refs",
        };
        let digest = Sha256::digest(format!("{mode} {}", self.metadata_location));
        let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hex}\"")
    }
}

pub struct Store {
    namespaces: BTreeMap<Namespace, Properties>,
    tables: BTreeMap<TableName, Table>,
    written: HashMap<String, Arc<TableMetadata>>,
}

/// The sample tables, first loaded at metadata version 1.
impl Default for Store {
    fn default() -> Self {
        let mut store =
            Self { namespaces: BTreeMap::new(), tables: BTreeMap::new(), written: HashMap::new() };
        for namespace in [&["sales"][..], &["hr"], &["hr", "payroll"], &["reference"], &["sandbox"]] {
            store.namespaces.insert(owned(namespace), Properties::new());
        }
        for (namespace, name, document) in [
            (&["sales"][..], "orders", include_str!("tables/sales.orders.json")),
            (&["sales"], "customers", include_str!("tables/sales.customers.json")),
            (&["hr", "payroll"], "salaries", include_str!("tables/hr.payroll.salaries.json")),
            (&["reference"], "countries", include_str!("tables/reference.countries.json")),
        ] {
            let metadata: TableMetadata = serde_json::from_str(document).expect("a sample table is valid");
            let location =
                format!("{}/metadata/00001-{}.metadata.json", metadata.location, metadata.table_uuid);
            store.put(TableName { namespace: owned(namespace), name: name.to_owned() }, location, metadata);
        }
        store
    }
}

fn owned(levels: &[&str]) -> Namespace {
    levels.iter().map(|&level| level.to_owned()).collect()
}

impl Store {
    /// The namespaces directly below `parent`.
    pub fn namespaces(&self, parent: &[String]) -> Result<Vec<&Namespace>, CatalogError> {
        if !parent.is_empty() {
            self.namespace(parent)?;
        }
        Ok(self
            .namespaces
            .keys()
            .filter(|namespace| namespace.len() == parent.len() + 1 && namespace.starts_with(parent))
            .collect())
    }

    pub fn namespace(&self, namespace: &[String]) -> Result<&Properties, CatalogError> {
        self.namespaces.get(namespace).ok_or_else(|| no_such_namespace(namespace))
    }

    pub fn namespace_mut(&mut self, namespace: &[String]) -> Result<&mut Properties, CatalogError> {
        self.namespaces.get_mut(namespace).ok_or_else(|| no_such_namespace(namespace))
    }

    pub fn create_namespace(
        &mut self,
        namespace: Namespace,
        properties: Properties,
    ) -> Result<(), CatalogError> {
        let Some((_, parent)) =
            namespace.split_last().filter(|_| namespace.iter().all(|level| !level.is_empty()))
        else {
            return Err(CatalogError::bad_request("A namespace needs a name".to_owned()));
        };
        if !parent.is_empty() {
            self.namespace(parent)?;
        }
        if self.namespaces.contains_key(&namespace) {
            return Err(already_exists("Namespace", &namespace.join(".")));
        }
        self.namespaces.insert(namespace, properties);
        Ok(())
    }

    pub fn drop_namespace(&mut self, namespace: &[String]) -> Result<(), CatalogError> {
        self.namespace(namespace)?;
        let has_children =
            self.namespaces.keys().any(|other| other.len() > namespace.len() && other.starts_with(namespace));
        if has_children || self.tables.keys().any(|table| table.namespace == namespace) {
            let message = format!("Namespace {} is not empty", namespace.join("."));
            return Err(CatalogError::new(StatusCode::CONFLICT, "NamespaceNotEmptyException", message));
        }
        self.namespaces.remove(namespace);
        Ok(())
    }

    pub fn tables(&self, namespace: &[String]) -> Result<Vec<&TableName>, CatalogError> {
        self.namespace(namespace)?;
        Ok(self.tables.keys().filter(|table| table.namespace == namespace).collect())
    }

    pub fn table(&self, name: &TableName) -> Result<&Table, CatalogError> {
        self.tables.get(name).ok_or_else(|| no_such_table(name))
    }

    /// The name can be given to a new table.
    pub fn must_be_free(&self, name: &TableName) -> Result<(), CatalogError> {
        self.namespace(&name.namespace)?;
        if name.name.is_empty() {
            return Err(CatalogError::bad_request("A table needs a name".to_owned()));
        }
        if self.tables.contains_key(name) {
            return Err(already_exists("Table", &name.to_string()));
        }
        Ok(())
    }

    /// Makes `metadata` the table's newest version, at a location of its own.
    pub fn write(&mut self, name: TableName, metadata: TableMetadata) -> &Table {
        let version = metadata.metadata_log.len();
        let location = format!("{}/metadata/{version:05}-{}.metadata.json", metadata.location, random_uuid());
        self.put(name, location, metadata)
    }

    fn put(&mut self, name: TableName, metadata_location: String, metadata: TableMetadata) -> &Table {
        let metadata = Arc::new(metadata);
        self.written.insert(metadata_location.clone(), metadata.clone());
        let table = Table { metadata_location, metadata };
        match self.tables.entry(name) {
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(table),
            std::collections::btree_map::Entry::Occupied(entry) => {
                let slot = entry.into_mut();
                *slot = table;
                slot
            }
        }
    }

    /// Brings back a table that this catalog once wrote.
    pub fn register(&mut self, name: TableName, metadata_location: &str) -> Result<&Table, CatalogError> {
        self.namespace(&name.namespace)?;
        let Some(metadata) = self.written.get(metadata_location) else {
            let message = format!("Metadata file does not exist: {metadata_location}");
            return Err(CatalogError::new(StatusCode::NOT_FOUND, "NotFoundException", message));
        };
        let metadata = TableMetadata::clone(metadata);
        Ok(self.put(name, metadata_location.to_owned(), metadata))
    }

    pub fn remove(&mut self, name: &TableName) -> Result<Table, CatalogError> {
        self.tables.remove(name).ok_or_else(|| no_such_table(name))
    }

    pub fn rename(&mut self, source: &TableName, destination: TableName) -> Result<(), CatalogError> {
        self.table(source)?;
        self.must_be_free(&destination)?;
        let table = self.remove(source)?;
        self.tables.insert(destination, table);
        Ok(())
    }
}

/// A version 4 UUID from the random state that the standard library keeps for its hash maps.
pub fn random_uuid() -> String {
    let [a, b] = [0, 1].map(|seed: u8| RandomState::new().hash_one(seed));
    let (version, variant) = (0x4000 | (a & 0x0FFF), 0x8000 | (b >> 48 & 0x3FFF));
    format!(
        "{:08x}-{:04x}-{version:04x}-{variant:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xFFFF,
        b & 0xFFFF_FFFF_FFFF
    )
}

fn no_such_namespace(namespace: &[String]) -> CatalogError {
    let message = format!("Namespace does not exist: {}", namespace.join("."));
    CatalogError::new(StatusCode::NOT_FOUND, "NoSuchNamespaceException", message)
}

fn no_such_table(name: &TableName) -> CatalogError {
    CatalogError::new(StatusCode::NOT_FOUND, "NoSuchTableException", format!("Table does not exist: {name}"))
}

fn already_exists(what: &str, name: &str) -> CatalogError {
    let message = format!("{what} already exists: {name}");
    CatalogError::new(StatusCode::CONFLICT, "AlreadyExistsException", message)
}
