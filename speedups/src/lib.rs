//! Hornbeam's codecs of stored rows and keys, for many rows at once.
//!
//! The reference is Python (`storage/codec`). This module computes the same from rows in the form
//! that Hornbeam writes, and refuses all others.

#![forbid(unsafe_code)]

mod columns;
mod keys;
mod message;
mod rows;
#[cfg(test)]
mod tests;
mod texts;
mod values;

/// The Python module.
#[pyo3::pymodule]
mod hornbeam_speedups {
    use arrow_pyarrow::{FromPyArrow, IntoPyArrow};
    use arrow_schema::Schema;
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use pyo3::types::PyBytes;

    use crate::keys::Part;
    use crate::rows::Layout;

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

    fn refused(error: impl std::fmt::Display) -> PyErr {
        PyValueError::new_err(error.to_string())
    }
}
