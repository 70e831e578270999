//! Arrow columns that grow value by value.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float64Builder, Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{IntervalMonthDayNano, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};

use crate::message::Reader;
use crate::values::{Kind, Scalar};

/// The most bytes of a column of text or bytes, whose offsets have 32 bits.
const LARGEST: usize = i32::MAX as usize;

/// A column under construction.
pub struct Column {
    kind: Kind,
    values: Values,
}

enum Values {
    Integer(Int32Builder),
    Bigint(Int64Builder),
    Decimal(Decimal128Builder),
    Double(Float64Builder),
    Boolean(BooleanBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Array(Box<Lists>),
}

struct Lists {
    element: FieldRef,
    elements: Column,
    count: i32,
    ends: Vec<i32>,
    valid: NullBufferBuilder,
}

impl Column {
    /// An empty column of an Arrow type that `Kind::of` knows.
    pub fn new(kind: &Kind, type_: &DataType, rows: usize) -> Result<Self, ArrowError> {
        let values = match (kind, type_) {
            (Kind::Integer, _) => Values::Integer(Int32Builder::with_capacity(rows)),
            (Kind::Bigint, _) => Values::Bigint(Int64Builder::with_capacity(rows)),
            (Kind::Decimal { precision, scale }, _) => Values::Decimal(
                Decimal128Builder::with_capacity(rows)
                    .with_precision_and_scale(*precision, *scale)?,
            ),
            (Kind::Double, _) => Values::Double(Float64Builder::with_capacity(rows)),
            (Kind::Boolean, _) => Values::Boolean(BooleanBuilder::with_capacity(rows)),
            (Kind::Text, _) => Values::Text(StringBuilder::with_capacity(rows, rows)),
            (Kind::Bytes, _) => Values::Bytes(BinaryBuilder::with_capacity(rows, rows)),
            (Kind::Date, _) => Values::Date(Date32Builder::with_capacity(rows)),
            (Kind::Time, _) => Values::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            (Kind::Timestamp | Kind::TimestampTz, _) => Values::Timestamp(
                TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(type_.clone()),
            ),
            (Kind::Interval, _) => {
                Values::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows))
            }
            (Kind::Uuid, _) => Values::Uuid(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            (Kind::Array(inner), DataType::List(element)) => Values::Array(Box::new(Lists {
                element: Arc::clone(element),
                elements: Self::new(inner, element.data_type(), rows)?,
                count: 0,
                ends: vec![0],
                valid: NullBufferBuilder::new(rows),
            })),
            _ => return Err(ArrowError::SchemaError(format!("no column has the type {type_}"))),
        };
        Ok(Self { kind: kind.clone(), values })
    }

    /// Appends the next value. `None` if it is not in the form that Hornbeam writes, or the column
    /// is full.
    #[inline]
    pub fn read(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        if let Values::Array(lists) = &mut self.values {
            return lists.read(reader);
        }
        let value = self.kind.scalar(reader)?;
        self.append(value)
    }

    #[inline]
    fn append(&mut self, value: Scalar<'_>) -> Option<()> {
        match (&mut self.values, value) {
            (Values::Integer(column), Scalar::Integer(value)) => column.append_value(value),
            (Values::Bigint(column), Scalar::Bigint(value)) => column.append_value(value),
            (Values::Decimal(column), Scalar::Decimal { units, .. }) => column.append_value(units),
            (Values::Double(column), Scalar::Double(value)) => column.append_value(value),
            (Values::Boolean(column), Scalar::Boolean(value)) => column.append_value(value),
            (Values::Text(column), Scalar::Text(value)) => {
                fits(column.values_slice().len(), value.len())?;
                column.append_value(value);
            }
            (Values::Bytes(column), Scalar::Bytes(value)) => {
                fits(column.values_slice().len(), value.len())?;
                column.append_value(value);
            }
            (Values::Date(column), Scalar::Date(value)) => column.append_value(value),
            (Values::Time(column), Scalar::Time(value)) => column.append_value(value),
            (Values::Timestamp(column), Scalar::Timestamp(value) | Scalar::TimestampTz(value)) => {
                column.append_value(value)
            }
            (Values::Interval(column), Scalar::Interval { months, days, nanoseconds }) => {
                column.append_value(IntervalMonthDayNano { months, days, nanoseconds });
            }
            (Values::Uuid(column), Scalar::Uuid(value)) => column.append_value(value).ok()?,
            _ => return None,
        }
        Some(())
    }

    /// Appends NULL.
    pub fn append_null(&mut self) {
        match &mut self.values {
            Values::Integer(column) => column.append_null(),
            Values::Bigint(column) => column.append_null(),
            Values::Decimal(column) => column.append_null(),
            Values::Double(column) => column.append_null(),
            Values::Boolean(column) => column.append_null(),
            Values::Text(column) => column.append_null(),
            Values::Bytes(column) => column.append_null(),
            Values::Date(column) => column.append_null(),
            Values::Time(column) => column.append_null(),
            Values::Timestamp(column) => column.append_null(),
            Values::Interval(column) => column.append_null(),
            Values::Uuid(column) => column.append_null(),
            Values::Array(lists) => lists.end(false),
        }
    }

    /// The column as an array.
    pub fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self.values {
            Values::Integer(mut column) => Arc::new(column.finish()),
            Values::Bigint(mut column) => Arc::new(column.finish()),
            Values::Decimal(mut column) => Arc::new(column.finish()),
            Values::Double(mut column) => Arc::new(column.finish()),
            Values::Boolean(mut column) => Arc::new(column.finish()),
            Values::Text(mut column) => Arc::new(column.finish()),
            Values::Bytes(mut column) => Arc::new(column.finish()),
            Values::Date(mut column) => Arc::new(column.finish()),
            Values::Time(mut column) => Arc::new(column.finish()),
            Values::Timestamp(mut column) => Arc::new(column.finish()),
            Values::Interval(mut column) => Arc::new(column.finish()),
            Values::Uuid(mut column) => Arc::new(column.finish()),
            Values::Array(lists) => Arc::new(lists.finish()?),
        })
    }
}

impl Lists {
    fn read(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let length = reader.array_header()?;
        if length > reader.left() {
            return None; // an element has at least one byte
        }
        let count = i32::try_from(length).ok().and_then(|length| self.count.checked_add(length))?;
        for _ in 0..length {
            if reader.nil() {
                self.elements.append_null();
            } else {
                self.elements.read(reader)?;
            }
        }
        self.count = count;
        self.end(true);
        Some(())
    }

    fn end(&mut self, valid: bool) {
        self.ends.push(self.count);
        self.valid.append(valid);
    }

    fn finish(mut self) -> Result<ListArray, ArrowError> {
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        ListArray::try_new(self.element, ends, self.elements.finish()?, self.valid.finish())
    }
}

fn fits(size: usize, more: usize) -> Option<()> {
    (size.checked_add(more)? <= LARGEST).then_some(())
}
