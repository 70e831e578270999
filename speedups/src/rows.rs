//! Stored rows of one layout: to Arrow record batches, and to the keys under which they belong.
//!
//! A row is refused (`None`) unless it is exactly in the form that Hornbeam writes. The caller
//! leaves refused rows to the reference implementation, which decodes them or reports the fault.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, FieldRef, Schema};

use crate::columns::Column;
use crate::keys::{self, Part};
use crate::message::Reader;
use crate::values::{Kind, Scalar};

const FORMAT: u8 = 0x01;

/// A column of the layout.
struct Field {
    kind: Kind,
    output: FieldRef,
    nullable: bool,
    in_key: bool,
}

impl Field {
    /// May a row have NULL? Rows that are older than a column may, unless it is of their key.
    fn takes_null(&self, older: bool) -> bool {
        self.nullable || (older && !self.in_key)
    }
}

/// The rows of a layout.
pub struct Layout {
    fields: Vec<Field>,
    older: Vec<u8>,
    starts: Vec<usize>,
    key: Vec<Part>,
}

impl Layout {
    /// The layout with the columns of `schema`. `older` is the stored row of the values that older
    /// rows have, which lack columns.
    pub fn new(schema: &Schema, older: Vec<u8>, key: Vec<Part>) -> Result<Self, ArrowError> {
        let fields = schema.fields().iter().enumerate().map(|(position, field)| {
            let kind = Kind::of(field.data_type()).ok_or_else(|| {
                ArrowError::SchemaError(format!("no column has the type {}", field.data_type()))
            })?;
            let output = Arc::new(field.as_ref().clone().with_nullable(true));
            let in_key = key.iter().any(|part| part.position == position);
            Ok(Field { kind, output, nullable: field.is_nullable(), in_key })
        });
        let fields = fields.collect::<Result<Vec<_>, ArrowError>>()?;
        if key.iter().any(|part| part.position >= fields.len()) {
            return Err(ArrowError::SchemaError("a key column is not in the schema".into()));
        }
        let starts = starts(&fields, &older);
        Ok(Self { fields, older, starts, key })
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.fields.len()
    }

    /// The columns at the positions `at`, at least one, of the rows `values`; `None` if a row is
    /// refused. The positions must be less than `width`.
    pub fn decode(
        &self,
        values: &[&[u8]],
        at: &[usize],
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (position, field) in self.fields.iter().enumerate() {
            columns.push(if at.contains(&position) {
                Some(Column::new(&field.kind, field.output.data_type(), values.len())?)
            } else {
                None
            });
        }
        for value in values {
            if self.read(value, &mut columns).is_none() {
                return Ok(None);
            }
        }
        let arrays = columns.into_iter().map(|column| column.map(Column::finish).transpose());
        let arrays = arrays.collect::<Result<Vec<Option<ArrayRef>>, ArrowError>>()?;
        let named = at.iter().filter_map(|position| {
            let field = self.fields.get(*position)?;
            Some((Arc::clone(&field.output), arrays.get(*position)?.clone()?))
        });
        let (fields, arrays): (Vec<_>, Vec<_>) = named.unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map(Some)
    }

    fn read(&self, value: &[u8], columns: &mut [Option<Column>]) -> Option<()> {
        let mut reader = Reader::new(value);
        let given = self.given(&mut reader)?;
        for (i, (field, column)) in self.fields.iter().zip(columns).enumerate() {
            if i == given {
                end(&reader)?;
                reader = self.older_from(given)?;
            }
            match (reader.nil(), column) {
                (true, _) if !field.takes_null(i >= given) => return None,
                (true, Some(column)) => column.append_null(),
                (true, None) => {}
                (false, Some(column)) => column.read(&mut reader)?,
                (false, None) => field.kind.skip(&mut reader)?,
            }
        }
        end(&reader)
    }

    /// The keys of the rows `values`, one after the other, and the end of each; `None` if a row is
    /// refused.
    pub fn keys(&self, values: &[&[u8]]) -> Option<(Vec<u8>, Vec<usize>)> {
        let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(values.len()));
        let mut found = vec![None; self.fields.len()];
        for value in values {
            self.scalars(value, &mut found)?;
            for part in &self.key {
                keys::append(&mut keys, *found.get(part.position)?, part.descending)?;
            }
            ends.push(keys.len());
        }
        Some((keys, ends))
    }

    /// Reads the values of a row, except arrays, which are in no key.
    fn scalars<'a>(&'a self, value: &'a [u8], found: &mut [Option<Scalar<'a>>]) -> Option<()> {
        let mut reader = Reader::new(value);
        let given = self.given(&mut reader)?;
        for (i, (field, found)) in self.fields.iter().zip(found).enumerate() {
            if i == given {
                end(&reader)?;
                reader = self.older_from(given)?;
            }
            *found = None;
            match (reader.nil(), &field.kind) {
                (true, _) if !field.takes_null(i >= given) => return None,
                (true, _) => {}
                (false, Kind::Array(_)) => field.kind.skip(&mut reader)?,
                (false, kind) => *found = Some(kind.scalar(&mut reader)?),
            }
        }
        end(&reader)
    }

    /// The number of columns of a row, whose header is read.
    fn given(&self, reader: &mut Reader<'_>) -> Option<usize> {
        if reader.byte()? != FORMAT {
            return None;
        }
        let given = reader.array_header()?;
        (given <= self.fields.len()).then_some(given)
    }

    fn older_from(&self, position: usize) -> Option<Reader<'_>> {
        Some(Reader::new(self.older.get(*self.starts.get(position)?..)?))
    }
}

fn end(reader: &Reader<'_>) -> Option<()> {
    reader.is_at_end().then_some(())
}

/// Where each column of the row `older` begins, up to the first one that is not readable.
fn starts(fields: &[Field], older: &[u8]) -> Vec<usize> {
    let mut reader = Reader::new(older);
    let mut found = Vec::with_capacity(fields.len());
    if reader.byte() != Some(FORMAT) || reader.array_header() != Some(fields.len()) {
        return found;
    }
    for field in fields {
        found.push(older.len().saturating_sub(reader.left()));
        if !reader.nil() && field.kind.skip(&mut reader).is_none() {
            found.clear(); // the values of the last columns could not be read either
            break;
        }
    }
    found
}
