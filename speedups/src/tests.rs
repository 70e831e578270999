//! Damaged rows are refused, and never read out of bounds. The laws that compare the results with
//! the reference are in `tests/speedups`.
#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects)]

use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};

use crate::answers::Row;
use crate::keys::Part;
use crate::rows::Layout;

fn schema() -> Schema {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
    let types = [
        DataType::Int32,
        DataType::Utf8,
        DataType::Decimal128(9, 2),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::FixedSizeBinary(16),
        list,
    ];
    Schema::new(types.into_iter().map(|type_| Field::new("c", type_, true)).collect::<Vec<_>>())
}

fn row() -> Vec<u8> {
    let mut row = b"\x01\x97\x07\xa3abc\xa4-1.5\xb32024-02-29T12:30:00".to_vec();
    row.extend(b"\x83\xa6months\x01\xa4days\x02\xacmicroseconds\x03");
    row.extend(b"\xd9\x2400112233-4455-6677-8899-aabbccddeeff");
    row.extend(b"\x92\xa1x\xc0");
    row
}

fn layout() -> Layout {
    let key = vec![
        Part { position: 0, descending: false },
        Part { position: 2, descending: true },
        Part { position: 4, descending: false },
    ];
    Layout::new(&schema(), b"\x01\x97\xc0\xc0\xc0\xc0\xc0\xc0\xc0".to_vec(), key).unwrap()
}

#[test]
fn a_row_is_taken_and_has_the_key_of_the_document() {
    let (layout, row) = (layout(), row());
    let batch = layout.decode(&[&row], &[6, 0]).unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (1, 2));
    let (key, ends) = layout.keys(&[&row]).unwrap();
    assert_eq!(ends, [key.len()]);
    assert!(key.starts_with(b"\x15\x07\xde\xfe\x15\x01\x10\x00\x44"), "{key:x?}");
}

#[test]
fn a_row_that_is_cut_off_or_too_long_is_refused() {
    let (layout, mut row) = (layout(), row());
    for end in 0..row.len() {
        let cut = row.get(..end).unwrap();
        assert!(layout.decode(&[cut], &[0]).unwrap().is_none());
        assert!(layout.keys(&[cut]).is_none());
    }
    row.push(0xc0);
    assert!(layout.decode(&[&row], &[0]).unwrap().is_none());
}

#[test]
fn any_bytes_are_refused_or_decoded() {
    let (layout, row) = (layout(), row());
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut taken = 0;
    for _ in 0..200_000 {
        let mut damaged = row.clone();
        for _ in 0..=random() % 3 {
            let at = usize::try_from(random()).unwrap() % damaged.len();
            *damaged.get_mut(at).unwrap() = random().to_be_bytes()[0];
        }
        let batch = layout.decode(&[&damaged], &[0, 1, 2, 3, 4, 5, 6]).unwrap();
        let keys = layout.keys(&[&damaged]);
        assert_eq!(batch.is_some(), keys.is_some());
        taken += usize::from(keys.is_some());
    }
    assert!(taken > 1_000, "{taken}");
}

fn answered(key: &[u8], value: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text].concat();
    let cells = b"\x0f\0\x02\x0c\0\0\0\x01\x0b\0\x01\0\0\0\x01d\x0b\0\x02\0\0\0\x01r\x0b\0\x03";
    let end = b"\x03\0\x06\x04\0\x02\0\x03\0\x02\0\x04\0\0";
    let timestamp = [b"\x0a\0\x04", 7_i64.to_be_bytes().as_slice()].concat();
    [b"\x0b\0\x01", &*text(key), cells, &*text(value), &*timestamp, end].concat()
}

#[test]
fn a_row_of_an_answer_is_taken_if_it_is_whole() {
    let data = answered(b"key", b"value");
    let (row, behind) = Row::first(&data).unwrap();
    assert_eq!(row, Row { key: b"key", timestamp: 7, value: b"value" });
    assert!(behind.is_empty());
    for end in 0..data.len() {
        assert_eq!(Row::first(data.get(..end).unwrap()), None);
    }
}

#[test]
fn readers_get_neither_marks_nor_the_zero_of_an_empty_key() {
    let read = |key: &'static [u8], value: &'static [u8]| {
        let row = Row { key, timestamp: 1, value };
        (row.read_key(), row.read_value())
    };
    assert_eq!(read(b"\0\0", b"\xff"), (&b"\0"[..], &b""[..]));
    assert_eq!(read(b"\0k", b"\xff0123456789abcdef"), (&b"\0k"[..], &b""[..]));
    assert_eq!(read(b"", b"\xff0123456789abcdefv"), (&b""[..], &b"v"[..]));
    assert_eq!(read(b"k\0", b"v\xff"), (&b"k\0"[..], &b"v\xff"[..]));
}

#[test]
fn a_length_that_exceeds_the_answer_is_refused() {
    let mut data = answered(b"key", b"value");
    for at in 3..7 {
        *data.get_mut(at).unwrap() = 0xff;
        assert_eq!(Row::first(&data), None);
    }
}
