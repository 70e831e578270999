//! Values of the column types: read from MessagePack, and checked as the reference checks them.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::message::Reader;
use crate::texts;

/// A column type, known by its Arrow type. JSON is text.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Integer,
    Bigint,
    Decimal { precision: u8, scale: i8 },
    Double,
    Boolean,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Array(Box<Kind>),
}

impl Kind {
    /// The kind of columns of an Arrow type; `None` if no column has that type.
    pub fn of(type_: &DataType) -> Option<Self> {
        Some(match type_ {
            DataType::Int32 => Self::Integer,
            DataType::Int64 => Self::Bigint,
            DataType::Decimal128(precision, scale) if *scale >= 0 => {
                Self::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Float64 => Self::Double,
            DataType::Boolean => Self::Boolean,
            DataType::Utf8 => Self::Text,
            DataType::Binary => Self::Bytes,
            DataType::Date32 => Self::Date,
            DataType::Time64(TimeUnit::Microsecond) => Self::Time,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Self::TimestampTz,
            DataType::Interval(IntervalUnit::MonthDayNano) => Self::Interval,
            DataType::FixedSizeBinary(16) => Self::Uuid,
            DataType::List(element) => Self::Array(Box::new(Self::of(element.data_type())?)),
            _ => return None,
        })
    }

    /// The next value, which is neither NULL nor an array. `None` if it is not in the form that
    /// Hornbeam writes.
    #[inline]
    pub fn scalar<'a>(&self, reader: &mut Reader<'a>) -> Option<Scalar<'a>> {
        Some(match self {
            Self::Integer => Scalar::Integer(i32::try_from(reader.integer()?).ok()?),
            Self::Bigint => Scalar::Bigint(reader.integer()?),
            Self::Decimal { precision, scale } => {
                let units = texts::decimal(reader.text_bytes()?, *precision, *scale)?;
                Scalar::Decimal { units, scale: *scale }
            }
            Self::Double => Scalar::Double(reader.double()?),
            Self::Boolean => Scalar::Boolean(reader.boolean()?),
            Self::Text => Scalar::Text(reader.text()?),
            Self::Bytes => Scalar::Bytes(reader.bytes()?),
            Self::Date => Scalar::Date(texts::date(reader.text_bytes()?)?),
            Self::Time => Scalar::Time(texts::time(reader.text_bytes()?)?),
            Self::Timestamp => Scalar::Timestamp(texts::timestamp(reader.text_bytes()?)?),
            Self::TimestampTz => {
                let (seconds, nanoseconds) = reader.timestamp()?;
                Scalar::TimestampTz(texts::instant(seconds, nanoseconds)?)
            }
            Self::Interval => {
                let (months, days, microseconds) = reader.interval()?;
                let nanoseconds = microseconds.checked_mul(1_000)?;
                let (months, days) = (i32::try_from(months).ok()?, i32::try_from(days).ok()?);
                Scalar::Interval { months, days, nanoseconds }
            }
            Self::Uuid => Scalar::Uuid(texts::uuid(reader.text_bytes()?)?),
            Self::Array(_) => return None,
        })
    }

    /// Reads a value, also an array, without keeping it.
    pub fn skip(&self, reader: &mut Reader<'_>) -> Option<()> {
        let Self::Array(element) = self else {
            return self.scalar(reader).map(|_| ());
        };
        for _ in 0..reader.array_header()? {
            if !reader.nil() {
                element.skip(reader)?;
            }
        }
        Some(())
    }
}

/// A value that is neither NULL nor an array. Times are in microseconds since 1970 or midnight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    Integer(i32),
    Bigint(i64),
    Decimal { units: i128, scale: i8 },
    Double(f64),
    Boolean(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    Date(i32),
    Time(i64),
    Timestamp(i64),
    TimestampTz(i64),
    Interval { months: i32, days: i32, nanoseconds: i64 },
    Uuid([u8; 16]),
}
