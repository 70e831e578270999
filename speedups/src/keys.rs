//! Parts of row keys: `storage/codec/KEYS.md` is the document of record.

use crate::values::Scalar;

const DAY: i128 = 86_400_000_000;

/// A column of a key: its position among the columns of the layout, and its direction.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub position: usize,
    pub descending: bool,
}

/// Appends the part of a value, or of NULL. `None` for a value that no key has.
pub fn append(key: &mut Vec<u8>, value: Option<Scalar<'_>>, descending: bool) -> Option<()> {
    let begin = key.len();
    match value {
        None => key.push(0x01),
        Some(value) => append_value(key, value)?,
    }
    if descending {
        complement(key.get_mut(begin..)?);
    }
    Some(())
}

fn append_value(key: &mut Vec<u8>, value: Scalar<'_>) -> Option<()> {
    match value {
        Scalar::Boolean(value) => key.push(if value { 0x06 } else { 0x05 }),
        Scalar::Integer(value) => integer(key, i128::from(value))?,
        Scalar::Bigint(value) => integer(key, i128::from(value))?,
        Scalar::Decimal { units, scale } => decimal(key, units, scale)?,
        Scalar::Double(value) => double(key, value)?,
        Scalar::Text(value) => escaped(key, 0x30, value.as_bytes()),
        Scalar::Bytes(value) => escaped(key, 0x31, value),
        Scalar::Date(value) => {
            key.push(0x40);
            key.extend((value.cast_unsigned() ^ 1 << 31).to_be_bytes());
        }
        Scalar::Timestamp(value) => ticks(key, 0x41, value),
        Scalar::TimestampTz(value) => ticks(key, 0x42, value),
        Scalar::Time(value) => {
            key.push(0x43);
            key.extend(value.to_be_bytes().get(3..)?);
        }
        Scalar::Interval { months, days, nanoseconds } => {
            let days = i128::from(months).checked_mul(30)?.checked_add(i128::from(days))?;
            let microseconds = i128::from(nanoseconds.div_euclid(1_000));
            key.push(0x44);
            integer(key, days.checked_mul(DAY)?.checked_add(microseconds)?)?;
        }
        Scalar::Uuid(value) => {
            key.push(0x50);
            key.extend(value);
        }
    }
    Some(())
}

fn complement(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

fn integer(key: &mut Vec<u8>, value: i128) -> Option<()> {
    let magnitude = value.unsigned_abs();
    let bits = 128u32.checked_sub(magnitude.leading_zeros())?;
    let size = u8::try_from(bits.div_ceil(8)).ok()?;
    let body = if value < 0 { !magnitude } else { magnitude }.to_be_bytes();
    match (value < 0, size <= 8) {
        (false, true) => key.push(0x14u8.checked_add(size)?),
        (true, true) => key.push(0x14u8.checked_sub(size)?),
        (false, false) => key.extend([0x1d, size]),
        (true, false) => key.extend([0x0b, 255u8.checked_sub(size)?]),
    }
    key.extend(body.get(16usize.checked_sub(usize::from(size))?..)?);
    Some(())
}

/// Sign, exponent of the first digit, two digits per byte, a zero byte.
fn decimal(key: &mut Vec<u8>, units: i128, scale: i8) -> Option<()> {
    key.push(0x21);
    if units == 0 {
        key.push(0x02);
        return Some(());
    }
    let text = units.unsigned_abs().to_string();
    let exponent = i128::try_from(text.len()).ok()?.checked_sub(i128::from(scale))?;
    key.push(if units < 0 { 0x01 } else { 0x03 });
    let begin = key.len();
    integer(key, exponent)?;
    for pair in text.trim_end_matches('0').as_bytes().chunks(2) {
        let tens = pair.first()?.wrapping_sub(b'0').checked_mul(10)?;
        let ones = pair.get(1).map_or(0, |digit| digit.wrapping_sub(b'0'));
        key.push(tens.checked_add(ones)?.checked_add(1)?);
    }
    key.push(0);
    if units < 0 {
        complement(key.get_mut(begin..)?);
    }
    Some(())
}

fn double(key: &mut Vec<u8>, value: f64) -> Option<()> {
    if value.is_nan() {
        return None;
    }
    let bits = (value + 0.0).to_bits(); // -0.0 + 0.0 is 0.0
    key.push(0x22);
    key.extend(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }.to_be_bytes());
    Some(())
}

fn escaped(key: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    key.push(code);
    for byte in bytes {
        key.push(*byte);
        if *byte == 0 {
            key.push(0xff);
        }
    }
    key.extend([0x00, 0x01]);
}

fn ticks(key: &mut Vec<u8>, code: u8, value: i64) {
    key.push(code);
    key.extend((value.cast_unsigned() ^ 1 << 63).to_be_bytes());
}
