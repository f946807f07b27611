//! Numbers in Chinese characters.

/// Returns `text` with months and days in digits that it has in Chinese numbers: `五月七日` becomes `5月7日`.
pub(crate) fn with_digits(text: &str) -> String {
    let mut changed = String::new();
    let chars: Vec<char> = text.chars().collect();
    let mut runs = chars.chunk_by(|a, b| value_of(*a).is_some() == value_of(*b).is_some()).peekable();
    while let Some(run) = runs.next() {
        let unit = runs.peek().and_then(|after| after.first());
        let values: Vec<u64> = run.iter().copied().filter_map(value_of).collect();
        if !values.is_empty() && matches!(unit, Some('月' | '日' | '号' | '號')) {
            changed += &number_of(&values).to_string();
        } else {
            changed.extend(run);
        }
    }
    changed
}

/// Returns the value of a digit or a unit.
pub(crate) fn value_of(c: char) -> Option<u64> {
    Some(match c {
        '零' | '〇' => 0,
        '一' => 1,
        '二' | '两' => 2,
        '三' => 3,
        '四' => 4,
        '五' => 5,
        '六' => 6,
        '七' => 7,
        '八' => 8,
        '九' => 9,
        '十' => 10,
        '百' => 100,
        '千' => 1000,
        '万' => 10_000,
        _ => return None,
    })
}

/// Returns the number of Chinese digits such as `二十三`.
pub(crate) fn number_of(digits: &[u64]) -> u64 {
    let (mut sum, mut last) = (0_u64, 0_u64);
    for digit in digits {
        if *digit < 10 {
            last = last.saturating_mul(10).saturating_add(*digit);
        } else {
            let part = last.max(u64::from(*digit == 10 || sum == 0));
            if *digit == 10_000 {
                sum = sum.saturating_add(last).max(1).saturating_mul(10_000);
            } else {
                sum = sum.saturating_add(part.saturating_mul(*digit));
            }
            last = 0;
        }
    }
    sum.saturating_add(last)
}

#[cfg(test)]
mod tests {
    use super::with_digits;

    #[test]
    fn months_and_days_become_digits() {
        assert_eq!(with_digits("十二月三十一号,一个月,两天"), "12月31号,一个月,两天");
        assert_eq!(with_digits("二〇二六年五月二十日"), "二〇二六年5月20日");
    }
}
