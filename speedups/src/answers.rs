//! Rows of an answer of HBase to a scan, in Thrift's binary protocol.
//!
//! The reference is `storage/hbase/answers.py`, whose docstring has the form, and `cells.py`.

const HEAD: &[u8] = b"\x0b\x00\x01";
const MIDDLE: &[u8] =
    b"\x0f\x00\x02\x0c\x00\x00\x00\x01\x0b\x00\x01\x00\x00\x00\x01d\x0b\x00\x02\x00\x00\x00\x01r\x0b\x00\x03";
const TIMESTAMP: &[u8] = b"\x0a\x00\x04";
const END: &[u8] = b"\x03\x00\x06\x04\x00\x02\x00\x03\x00\x02\x00\x04\x00\x00";
/// The first byte of a value that is stored in another form.
const MARK: u8 = 0xff;
const SIGNATURE: usize = 16;

/// A row as HBase stores it.
#[derive(Debug, PartialEq)]
pub struct Row<'a> {
    pub key: &'a [u8],
    pub timestamp: i64,
    pub value: &'a [u8],
}

impl<'a> Row<'a> {
    /// The row at the beginning of `data`, and the bytes behind it; None if it is not whole, or not
    /// in the usual form.
    #[inline]
    pub fn first(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (key, data) = text(data.strip_prefix(HEAD)?)?;
        let (value, data) = text(data.strip_prefix(MIDDLE)?)?;
        let (timestamp, data) = data.strip_prefix(TIMESTAMP)?.split_first_chunk::<8>()?;
        let timestamp = i64::from_be_bytes(*timestamp);
        Some((Self { key, timestamp, value }, data.strip_prefix(END)?))
    }

    /// The key that readers get.
    #[inline]
    pub fn read_key(&self) -> &'a [u8] {
        match self.key.split_last() {
            Some((_, shorter)) if self.key.iter().all(|byte| *byte == 0) => shorter,
            _ => self.key,
        }
    }

    /// The value that readers get; empty for a tombstone.
    #[inline]
    pub fn read_value(&self) -> &'a [u8] {
        match self.value.split_first() {
            Some((&MARK, signed)) => signed.get(SIGNATURE..).unwrap_or_default(),
            _ => self.value,
        }
    }
}

/// A text that follows its length, and the bytes behind it.
#[inline]
fn text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, data) = data.split_first_chunk::<4>()?;
    data.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)
}
