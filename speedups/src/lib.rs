//! Hornbeam's codecs of stored rows and keys, for many rows at once, scans of RocksDB, and rows of
//! HBase's answers.
//!
//! The reference is Python (`storage/codec`, `storage/rocks`, `storage/hbase`). This module computes the same from
//! rows in the form that Hornbeam writes, and refuses all others.

#![forbid(unsafe_code)]

mod answers;
mod columns;
mod keys;
mod message;
mod rows;
#[cfg(test)]
mod tests;
mod texts;
mod values;
mod versions;

/// The Python module.
#[pyo3::pymodule]
mod hornbeam_speedups {
    use arrow_pyarrow::{FromPyArrow, IntoPyArrow};
    use arrow_schema::Schema;
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use pyo3::types::{PyBytes, PyIterator};

    use crate::answers::Row;
    use crate::keys::Part;
    use crate::rows::Layout;
    use crate::versions::{Found, Newest};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    /// The stored rows of one layout.
    #[pyclass(frozen)]
    struct Rows {
        layout: Layout,
    }

    #[pymethods]
    impl Rows {
        /// `schema` has the Arrow types of the layout's columns; `older` is the stored row of the
        /// values that older rows have. `key` are pairs of position and direction (true:
        /// descending).
        #[new]
        fn new(
            schema: &Bound<'_, PyAny>,
            older: Vec<u8>,
            key: Vec<(usize, bool)>,
        ) -> PyResult<Self> {
            let schema = Schema::from_pyarrow_bound(schema)?;
            let parts = key.into_iter();
            let parts = parts.map(|(position, descending)| Part { position, descending }).collect();
            Ok(Self { layout: Layout::new(&schema, older, parts).map_err(refused)? })
        }

        /// The columns at the positions `at` of the rows `values` as a record batch; None if one
        /// of the rows is not in the form that Hornbeam writes.
        fn decode<'py>(
            &self,
            py: Python<'py>,
            values: Vec<Bound<'py, PyBytes>>,
            at: Vec<usize>,
        ) -> PyResult<Option<Bound<'py, PyAny>>> {
            if at.iter().any(|position| *position >= self.layout.width()) {
                return Err(PyValueError::new_err("a position is not in the layout"));
            }
            let bytes = values.iter().map(|value| value.as_bytes()).collect::<Vec<_>>();
            let batch = py.detach(|| self.layout.decode(&bytes, &at)).map_err(refused)?;
            batch.map(|batch| batch.into_pyarrow(py)).transpose()
        }

        /// The keys of the rows `values`; None if one of the rows is not in the form that Hornbeam
        /// writes.
        fn keys<'py>(
            &self,
            py: Python<'py>,
            values: Vec<Bound<'py, PyBytes>>,
        ) -> Option<Vec<Bound<'py, PyBytes>>> {
            let bytes = values.iter().map(|value| value.as_bytes()).collect::<Vec<_>>();
            let (keys, ends) = py.detach(|| self.layout.keys(&bytes))?;
            let mut begin = 0;
            let parts = ends.into_iter().map(|end| {
                let key = keys.get(begin..end)?;
                begin = end;
                Some(PyBytes::new(py, key))
            });
            parts.collect()
        }
    }

    /// The rows that a snapshot reads of a range of a RocksDB, batch by batch.
    #[pyclass]
    struct Scan {
        source: Py<PyAny>,
        entries: Py<PyIterator>,
        last: Py<PyBytes>,
        versions: Newest,
        tombstone: Vec<u8>,
        batch_bytes: usize,
    }

    #[pymethods]
    impl Scan {
        /// `source.items(key)` iterates over physical keys and values from `key` on, and
        /// `source.require_end(key)` raises unless the data ends behind `key`. `newest` is the
        /// complement of the snapshot's timestamp. Of a row with more than `most_steps` versions
        /// the others are passed by a further call of `items`.
        #[new]
        fn new(
            source: Bound<'_, PyAny>,
            start: Bound<'_, PyBytes>,
            newest: u64,
            most_steps: usize,
            tombstone: Vec<u8>,
            batch_bytes: usize,
        ) -> PyResult<Self> {
            let entries = items(&source, &start)?.unbind();
            let versions = Newest::new(newest, most_steps);
            let (source, last) = (source.unbind(), start.unbind());
            Ok(Self { source, entries, last, versions, tombstone, batch_bytes })
        }

        /// The next rows, at most `most`, up to the row at which they have `batch_bytes`; and
        /// whether they are the last ones. `cell` makes a row of key, timestamp and value.
        fn cells<'py>(
            &mut self,
            py: Python<'py>,
            most: usize,
            cell: &Bound<'py, PyAny>,
        ) -> PyResult<(Vec<Bound<'py, PyAny>>, bool)> {
            self.batch(py, most, |found, value| {
                cell.call1(((PyBytes::new(py, found.key), found.timestamp, value),))
            })
        }

        /// The values of `cells`.
        fn values<'py>(
            &mut self,
            py: Python<'py>,
            most: usize,
        ) -> PyResult<(Vec<Bound<'py, PyAny>>, bool)> {
            self.batch(py, most, |_, value| Ok(value.into_any()))
        }
    }

    impl Scan {
        fn batch<'py>(
            &mut self,
            py: Python<'py>,
            most: usize,
            make: impl Fn(Found<'_>, Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>>,
        ) -> PyResult<(Vec<Bound<'py, PyAny>>, bool)> {
            let source = self.source.clone_ref(py).into_bound(py);
            let mut entries = self.entries.clone_ref(py).into_bound(py);
            let mut rows = Vec::new();
            let mut left = self.batch_bytes;
            while rows.len() < most && left > 0 {
                let Some(entry) = entries.next() else {
                    source.call_method1("require_end", (&self.last,))?;
                    return Ok((rows, true));
                };
                let (physical, value) = entry?.extract::<(Bound<'py, PyBytes>, _)>()?;
                let value: Bound<'py, PyBytes> = value;
                let found = self.versions.step(physical.as_bytes()).map_err(refused)?;
                if let Some(found) = found
                    && value.as_bytes() != self.tombstone
                {
                    left = left.saturating_sub(value.as_bytes().len());
                    rows.push(make(found, value)?);
                }
                self.last = physical.unbind();
                if let Some(key) = self.versions.seek() {
                    let key = PyBytes::new(py, &key);
                    entries = items(&source, &key)?;
                    self.entries = entries.clone().unbind();
                    self.last = key.unbind();
                }
            }
            Ok((rows, false))
        }
    }

    /// The rows of `decode_answer`, then their number with tombstones, the bytes of their keys and
    /// of their values as they are stored, the last stored key, and the offset behind them.
    type Decoded<'py> = (Vec<Bound<'py, PyAny>>, usize, usize, usize, Bound<'py, PyBytes>, usize);

    /// The rows of an answer of HBase to a scan, from the offset `at` of `data` on, at most `most`,
    /// up to the first row that is not whole or not in the usual form. `form` is `stored`, `cells`
    /// (as readers get them, without tombstones) or `values` (of these cells); `cell` makes a row
    /// of key, timestamp and value.
    #[pyfunction]
    fn decode_answer<'py>(
        py: Python<'py>,
        data: &Bound<'py, PyBytes>,
        at: usize,
        most: usize,
        form: &str,
        cell: &Bound<'py, PyAny>,
    ) -> PyResult<Decoded<'py>> {
        let make = |key: &[u8], timestamp: i64, value: &[u8]| {
            cell.call1(((PyBytes::new(py, key), timestamp, PyBytes::new(py, value)),))
        };
        let data = data.as_bytes();
        match form {
            "stored" => decoded(py, data, at, most, |row, _| {
                make(row.key, row.timestamp, row.value).map(Some)
            }),
            "cells" => decoded(py, data, at, most, |row, value| {
                value.map(|value| make(row.read_key(), row.timestamp, value)).transpose()
            }),
            "values" => decoded(py, data, at, most, |_, value| {
                Ok(value.map(|value| PyBytes::new(py, value).into_any()))
            }),
            _ => Err(PyValueError::new_err("a form of rows is unknown")),
        }
    }

    /// `make` gets a row and the value that readers get, None for a tombstone.
    fn decoded<'py>(
        py: Python<'py>,
        data: &[u8],
        at: usize,
        most: usize,
        make: impl Fn(&Row<'_>, Option<&[u8]>) -> PyResult<Option<Bound<'py, PyAny>>>,
    ) -> PyResult<Decoded<'py>> {
        let mut left = data.get(at..).unwrap_or_default();
        let (mut rows, mut last) = (Vec::new(), None);
        let (mut count, mut key_bytes, mut value_bytes) = (0_usize, 0_usize, 0_usize);
        while count < most
            && let Some((row, behind)) = Row::first(left)
        {
            let value = Some(row.read_value()).filter(|value| !value.is_empty());
            rows.extend(make(&row, value)?);
            count = count.saturating_add(1);
            key_bytes = key_bytes.saturating_add(row.key.len());
            value_bytes = value_bytes.saturating_add(row.value.len());
            last = Some(row.key);
            left = behind;
        }
        let last = PyBytes::new(py, last.unwrap_or_default());
        let end = data.len().saturating_sub(left.len()).max(at);
        Ok((rows, count, key_bytes, value_bytes, last, end))
    }

    fn items<'py>(
        source: &Bound<'py, PyAny>,
        key: &Bound<'py, PyBytes>,
    ) -> PyResult<Bound<'py, PyIterator>> {
        source.call_method1("items", (key,))?.try_iter()
    }

    fn refused(error: impl std::fmt::Display) -> PyErr {
        PyValueError::new_err(error.to_string())
    }
}
