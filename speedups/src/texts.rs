//! Values that stored rows have as text: decimals, dates, times and UUIDs.
//!
//! Each function accepts exactly the text that Hornbeam writes, and returns `None` for all others.

const DAY: i64 = 86_400_000_000;
/// 0001-01-01T00:00:00 and the instant after 9999-12-31T23:59:59.999999, in seconds since 1970.
const YEARS: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

#[inline]
fn digits(text: &[u8]) -> Option<i64> {
    let mut number = 0i64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    Some(number)
}

/// Days since 1970-01-01 of `2024-02-29`.
pub fn date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    let year = digits(&[y1, y2, y3, y4])?;
    let month = digits(&[m1, m2])?;
    let day = digits(&[d1, d2])?;
    if year < 1 || !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    i32::try_from(days_since_1970(year, month, day)?).ok()
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year & 3 == 0 && (year & 15 == 0 || !matches!(year.checked_rem(25), Some(0)));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Hinnant's algorithm: years begin in March, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let (year, month) = if month > 2 {
        (year, month.checked_sub(3)?)
    } else {
        (year.checked_sub(1)?, month.checked_add(9)?)
    };
    let of_year = month.checked_mul(153)?.checked_add(2)?.div_euclid(5).checked_add(day)?;
    year.checked_mul(365)?
        .checked_add(year.div_euclid(4))?
        .checked_sub(year.div_euclid(100))?
        .checked_add(year.div_euclid(400))?
        .checked_add(of_year)?
        .checked_sub(719_469)
}

/// Microseconds since midnight of `12:30:00` or `12:30:00.000001`.
pub fn time(text: &[u8]) -> Option<i64> {
    let (clock, fraction) = match *text {
        [ref clock @ .., b'.', f1, f2, f3, f4, f5, f6] if clock.len() == 8 => {
            (clock, digits(&[f1, f2, f3, f4, f5, f6])?)
        }
        _ => (text, 0),
    };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *clock else { return None };
    let (hours, minutes, seconds) = (digits(&[h1, h2])?, digits(&[m1, m2])?, digits(&[s1, s2])?);
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let seconds = minutes.checked_mul(60)?.checked_add(seconds)?;
    seconds.checked_mul(1_000_000)?.checked_add(fraction)
}

/// Microseconds since 1970 of `2024-02-29T12:30:00`.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let (b'T', clock) = rest.split_first()? else { return None };
    i64::from(date(day)?).checked_mul(DAY)?.checked_add(time(clock)?)
}

/// Microseconds since 1970 of an instant in the years 1 to 9999.
pub fn instant(seconds: i64, nanoseconds: u32) -> Option<i64> {
    let whole = nanoseconds.is_multiple_of(1_000) && nanoseconds < 1_000_000_000;
    if !whole || !YEARS.contains(&seconds) {
        return None;
    }
    let microseconds = i64::from(nanoseconds.checked_div(1_000)?);
    seconds.checked_mul(1_000_000)?.checked_add(microseconds)
}

/// The bytes of `00112233-4455-6677-8899-aabbccddeeff`.
pub fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut bytes = [0u8; 16];
    let mut rest = text;
    for (i, byte) in bytes.iter_mut().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            rest = rest.strip_prefix(b"-")?;
        }
        let (pair, more) = rest.split_first_chunk::<2>()?;
        *byte = hex(pair[0])? << 4 | hex(pair[1])?;
        rest = more;
    }
    rest.is_empty().then_some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => digit.checked_sub(b'0'),
        b'a'..=b'f' => digit.checked_sub(b'a' - 10),
        _ => None,
    }
}

/// A decimal as a whole number of units of 10^-scale: of `1.5`, `-0.25`, `0E-9`, `1E-7`. `None` for
/// a number with more decimals, or with more than `precision` digits.
pub fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, text) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let (number, exponent) = split_exponent(text)?;
    let mut units = 0u128;
    let mut decimals = None::<i64>;
    let mut any = false;
    for byte in number {
        match byte {
            b'0'..=b'9' => {
                let digit = u128::from(byte.wrapping_sub(b'0'));
                units = units.checked_mul(10)?.checked_add(digit)?;
                decimals = match decimals {
                    None => None,
                    Some(count) => Some(count.checked_add(1)?),
                };
                any = true;
            }
            b'.' if decimals.is_none() && any => decimals = Some(0),
            _ => return None,
        }
    }
    if !any || decimals == Some(0) {
        return None;
    }
    let more = i64::from(scale).checked_sub(decimals.unwrap_or(0))?.checked_add(exponent)?;
    let factor = 10u128.checked_pow(u32::try_from(more).ok()?)?;
    let units = units.checked_mul(factor)?;
    if units >= 10u128.checked_pow(u32::from(precision))? {
        return None;
    }
    let units = i128::try_from(units).ok()?;
    if negative { units.checked_neg() } else { Some(units) }
}

/// The digits and the exponent of `1E-7`. A text without an exponent has the exponent 0.
fn split_exponent(text: &[u8]) -> Option<(&[u8], i64)> {
    let Some(at) = text.iter().position(|byte| *byte == b'E') else { return Some((text, 0)) };
    let (number, rest) = text.split_at_checked(at)?;
    match rest {
        [b'E', b'-', size @ ..] if (1..=3).contains(&size.len()) => {
            Some((number, digits(size)?.checked_neg()?))
        }
        [b'E', b'+', size @ ..] if (1..=3).contains(&size.len()) => Some((number, digits(size)?)),
        _ => None,
    }
}
