//! `PyStored`: what a crawl directory contains, as the command reads it. A thread reads the directory while Python
//! takes what it has read.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use argiope_cli::stored::{self, PageTable, ReadError, Results, TableOptions};
use argiope_store::disk::GraphRound;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{input_error, store_error};

/// How many rows are read before Python takes them.
const ROWS_AHEAD: usize = 1_024;

/// A crawl directory. For `argiope.open`.
#[pyclass(frozen, name = "Stored", module = "argiope._argiope")]
pub struct PyStored {
    path: PathBuf,
}

#[pymethods]
impl PyStored {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Results::at(&path).check().map_err(|error| read_error(&error))?;
        Ok(Self { path })
    }

    /// The records of the pages of the latest round, as JSON.
    fn pages(&self) -> PyResult<PyRows> {
        PyRows::read(self.path.clone(), |results, rows| {
            results.latest_page_lines(|line| send(rows, Row::Record(line.to_vec())))
        })
    }

    /// The links of the latest round.
    fn links(&self) -> PyResult<PyRows> {
        PyRows::read(self.path.clone(), |results, rows| {
            let mut graph = results.graph(GraphRound::Latest)?;
            graph.pages(|page| {
                for edge in page.edges() {
                    let anchor = edge.anchor.map(str::to_owned);
                    let (source, target) = (page.source.to_owned(), edge.target.to_owned());
                    send(
                        rows,
                        Row::Link { source, target, kind: edge.kind.as_str(), nofollow: edge.nofollow, anchor },
                    )?;
                }
                Ok::<(), ReadError>(())
            })
        })
    }

    /// What `argiope explain` prints about a URL.
    fn explain(&self, py: Python<'_>, url: &str) -> PyResult<String> {
        py.detach(|| stored::explanation(&Results::at(&self.path), url)).map_err(input_error)
    }

    /// The pages of the latest round as a table.
    fn table(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<PyTable> {
        let path = self.path.clone();
        let schema = py.detach(|| {
            let results = Results::at(&path);
            let table = PageTable::open(&results, TableOptions { columns: &columns, ..TableOptions::default() })?;
            Ok(stored::schema(&table.columns))
        });
        let schema = schema.map_err(|error: ReadError| read_error(&error))?;
        Ok(PyTable { path, columns, schema })
    }
}

fn read_error(error: &ReadError) -> PyErr {
    store_error(error.to_string())
}

/// Sends a row; an error if nobody takes rows any more.
fn send<T>(rows: &SyncSender<T>, row: T) -> Result<(), ReadError> {
    rows.send(row).map_err(|_| ReadError::Refused("the reader has left".into()))
}

enum Row {
    Record(Vec<u8>),
    Link { source: String, target: String, kind: &'static str, nofollow: bool, anchor: Option<String> },
    Failed(String),
}

/// An iterator over what a thread reads.
#[pyclass(frozen, name = "Rows", module = "argiope._argiope")]
pub struct PyRows {
    rows: Mutex<Receiver<Row>>,
}

impl PyRows {
    fn read(
        path: PathBuf,
        read: impl FnOnce(&Results, &SyncSender<Row>) -> Result<(), ReadError> + Send + 'static,
    ) -> PyResult<Self> {
        let (sender, rows) = sync_channel(ROWS_AHEAD);
        let thread = move || {
            if let Err(error) = read(&Results::at(&path), &sender) {
                // Ignored: nobody takes rows any more.
                let _ = sender.send(Row::Failed(error.to_string()));
            }
        };
        std::thread::Builder::new().name("argiope-read".into()).spawn(thread).map_err(PyOSError::new_err)?;
        Ok(Self { rows: Mutex::new(rows) })
    }
}

#[pymethods]
impl PyRows {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = py.detach(|| self.rows.lock().unwrap_or_else(PoisonError::into_inner).recv());
        match next {
            Err(_) => Ok(None),
            Ok(Row::Failed(message)) => Err(store_error(message)),
            Ok(Row::Record(line)) => {
                py.import("json")?.call_method1("loads", (String::from_utf8_lossy(&line),)).map(Some)
            }
            Ok(Row::Link { source, target, kind, nofollow, anchor }) => {
                Ok(Some((source, target, kind, nofollow, anchor).into_pyobject(py)?.into_any()))
            }
        }
    }
}

/// A table of pages, which Arrow libraries read: `pyarrow.table(table)`, `polars.DataFrame(table)`, and DuckDB by the name
/// of the variable. It is read from the crawl directory when it is taken, in batches.
#[pyclass(frozen, name = "Table", module = "argiope")]
pub struct PyTable {
    path: PathBuf,
    columns: Vec<String>,
    schema: SchemaRef,
}

#[pymethods]
impl PyTable {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The table as an Arrow C stream (the Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A requested schema is a wish; the table has the types of its columns.
        drop(requested_schema);
        let (sender, batches) = sync_channel(1);
        let (path, columns) = (self.path.clone(), self.columns.clone());
        let read = move || {
            if let Err(error) = read_batches(&path, &columns, &sender) {
                // Ignored: nobody takes batches any more.
                let _ = sender.send(Err(ArrowError::ExternalError(Box::new(error))));
            }
        };
        std::thread::Builder::new().name("argiope-read".into()).spawn(read).map_err(PyOSError::new_err)?;
        let reader = RecordBatchIterator::new(batches.into_iter(), Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __repr__(&self) -> String {
        format!("<Table of {} columns in {}>", self.schema.fields().len(), self.path.display())
    }
}

fn read_batches(
    path: &Path,
    columns: &[String],
    batches: &SyncSender<Result<RecordBatch, ArrowError>>,
) -> Result<(), ReadError> {
    let results = Results::at(path);
    let mut table = PageTable::open(&results, TableOptions { columns, ..TableOptions::default() })?;
    stored::batches(&mut table, |batch| send(batches, batch))
}
