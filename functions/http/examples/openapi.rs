//! Prints the document of `GET /openapi.json`: `just openapi`.
#![allow(clippy::print_stdout, reason = "its output is the document")]

fn main() {
    println!("{:#}", annals_http::openapi());
}
