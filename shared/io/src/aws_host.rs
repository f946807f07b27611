//! AWS's host names: [`of`].

/// Returns the host of `service`, such as `sqs`, in `region`. Source: [service
/// endpoints](https://docs.aws.amazon.com/general/latest/gr/rande.html).
pub fn of(service: &str, region: &str) -> String {
    let suffix = match region.split_once('-').map(|(start, _)| start) {
        Some("cn") => "amazonaws.com.cn",
        Some("eusc") => "amazonaws.eu",
        _ => "amazonaws.com",
    };
    format!("{service}.{region}.{suffix}")
}
