//! A table with real Parquet files in a local folder, written by iceberg-rust.

use std::{collections::HashMap, path::Path, sync::Arc};

use arrow_array::RecordBatch;
use iceberg::{
    Catalog, CatalogBuilder, NamespaceIdent, TableCreation,
    io::LocalFsStorageFactory,
    memory::{MEMORY_CATALOG_WAREHOUSE, MemoryCatalogBuilder},
    spec::{DataFileFormat, Schema},
    table::Table,
    transaction::{ApplyTransactionAction, Transaction},
    writer::{
        IcebergWriter, IcebergWriterBuilder,
        base_writer::data_file_writer::DataFileWriterBuilder,
        file_writer::{
            ParquetWriterBuilder,
            location_generator::{DefaultFileNameGenerator, DefaultLocationGenerator},
            rolling_writer::RollingFileWriterBuilder,
        },
    },
};
use parquet::file::properties::WriterProperties;

/// Creates the table `sales.<name>` below `folder` and appends each batch in a data file of its own, in row groups of a
/// few rows, so that even a small table has several of everything.
///
/// # Errors
///
/// When iceberg-rust cannot write it.
pub async fn create_table(
    folder: &Path,
    name: &str,
    schema: Schema,
    batches: Vec<RecordBatch>,
) -> iceberg::Result<Table> {
    let location = HashMap::from([(MEMORY_CATALOG_WAREHOUSE.to_owned(), folder.display().to_string())]);
    let catalog = MemoryCatalogBuilder::default().with_storage_factory(Arc::new(LocalFsStorageFactory));
    let catalog = catalog.load("warehouse", location).await?;
    let namespace = NamespaceIdent::new("sales".to_owned());
    catalog.create_namespace(&namespace, HashMap::new()).await?;
    let creation = TableCreation::builder().name(name.to_owned()).schema(schema).build();
    let table = catalog.create_table(&namespace, creation).await?;

    let mut data_files = Vec::new();
    for (number, batch) in batches.into_iter().enumerate() {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(8)).build();
        let parquet = ParquetWriterBuilder::new(properties, table.metadata().current_schema().clone());
        let files = RollingFileWriterBuilder::new_with_default_file_size(
            parquet,
            table.file_io().clone(),
            DefaultLocationGenerator::new(table.metadata())?,
            DefaultFileNameGenerator::new(format!("part-{number}"), None, DataFileFormat::Parquet),
        );
        let mut writer = DataFileWriterBuilder::new(files).build(None).await?;
        writer.write(batch).await?;
        data_files.extend(writer.close().await?);
    }
    let transaction = Transaction::new(&table);
    let append = transaction.fast_append().add_data_files(data_files);
    append.apply(transaction)?.commit(&catalog).await
}
