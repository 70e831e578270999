//! MessagePack as stored rows have it: `storage/codec/rows.py` is the document of record.
//!
//! Readers accept the forms that Hornbeam writes. They return `None` for all others, and for bytes
//! that end too early: the caller then leaves the row to the reference implementation.

/// The next byte and what follows of a stored value.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// Whether all bytes are read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number of bytes that are not read yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    fn size<const N: usize>(&mut self) -> Option<usize> {
        let bytes = self.array::<N>()?;
        Some(bytes.iter().fold(0, |size, byte| size << 8 | usize::from(*byte)))
    }

    /// Reads a nil if it is next; otherwise nothing.
    #[inline]
    pub fn nil(&mut self) -> bool {
        let found = self.rest.first() == Some(&0xc0);
        if found {
            self.byte();
        }
        found
    }

    /// The number of elements of an array.
    pub fn array_header(&mut self) -> Option<usize> {
        match self.byte()? {
            head @ 0x90..=0x9f => Some(usize::from(head & 0x0f)),
            0xdc => self.size::<2>(),
            0xdd => self.size::<4>(),
            _ => None,
        }
    }

    /// A whole number of 64 bits.
    #[inline]
    pub fn integer(&mut self) -> Option<i64> {
        Some(match self.byte()? {
            head @ 0x00..=0x7f => i64::from(head),
            head @ 0xe0..=0xff => i64::from(head.cast_signed()),
            0xcc => i64::from(self.byte()?),
            0xcd => i64::from(u16::from_be_bytes(self.array()?)),
            0xce => i64::from(u32::from_be_bytes(self.array()?)),
            0xcf => i64::try_from(u64::from_be_bytes(self.array()?)).ok()?,
            0xd0 => i64::from(i8::from_be_bytes(self.array()?)),
            0xd1 => i64::from(i16::from_be_bytes(self.array()?)),
            0xd2 => i64::from(i32::from_be_bytes(self.array()?)),
            0xd3 => i64::from_be_bytes(self.array()?),
            _ => return None,
        })
    }

    /// A double.
    pub fn double(&mut self) -> Option<f64> {
        match self.byte()? {
            0xcb => Some(f64::from_be_bytes(self.array()?)),
            _ => None,
        }
    }

    /// A truth value.
    pub fn boolean(&mut self) -> Option<bool> {
        match self.byte()? {
            0xc2 => Some(false),
            0xc3 => Some(true),
            _ => None,
        }
    }

    /// The bytes of a text, which may be no UTF-8.
    #[inline]
    pub fn text_bytes(&mut self) -> Option<&'a [u8]> {
        let size = match self.byte()? {
            head @ 0xa0..=0xbf => usize::from(head & 0x1f),
            0xd9 => self.size::<1>()?,
            0xda => self.size::<2>()?,
            0xdb => self.size::<4>()?,
            _ => return None,
        };
        self.take(size)
    }

    /// A text.
    #[inline]
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.text_bytes()?).ok()
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let size = match self.byte()? {
            0xc4 => self.size::<1>()?,
            0xc5 => self.size::<2>()?,
            0xc6 => self.size::<4>()?,
            _ => return None,
        };
        self.take(size)
    }

    /// A timestamp: seconds since 1970 and nanoseconds.
    pub fn timestamp(&mut self) -> Option<(i64, u32)> {
        match (self.byte()?, self.byte()?) {
            (0xd6, 0xff) => Some((i64::from(u32::from_be_bytes(self.array()?)), 0)),
            (0xd7, 0xff) => {
                let both = u64::from_be_bytes(self.array()?);
                let seconds = i64::try_from(both & 0x3_ffff_ffff).ok()?;
                Some((seconds, u32::try_from(both >> 34).ok()?))
            }
            (0xc7, 12) if self.byte()? == 0xff => {
                let nanoseconds = u32::from_be_bytes(self.array()?);
                Some((i64::from_be_bytes(self.array()?), nanoseconds))
            }
            _ => None,
        }
    }

    /// An interval: months, days and microseconds.
    pub fn interval(&mut self) -> Option<(i64, i64, i64)> {
        if self.byte()? != 0x83 {
            return None;
        }
        Some((self.field(b"months")?, self.field(b"days")?, self.field(b"microseconds")?))
    }

    fn field(&mut self, name: &[u8]) -> Option<i64> {
        if self.text_bytes()? == name { self.integer() } else { None }
    }
}
