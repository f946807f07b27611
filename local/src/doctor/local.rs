//! Checks the local program: whether it runs, and its data directory.

use annals_channel::finding::{Finding, Words};
use std::net::SocketAddr;
use std::time::Duration;

use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_io::tls;

use super::{disk, stack};
use crate::config::{LocalConfig, data_dir};
use crate::errors::aws_message;
use crate::histories::open_stores;
use crate::queue::LocalQueue;
use crate::stores::{BUCKET, TABLE, check_writable, is_worked_on};

pub(super) async fn check(env: Env<'_>) -> Vec<Finding> {
    let dir = data_dir(env);
    let shown = dir.display().to_string();
    let mut findings = Vec::new();
    if dir.is_dir() && check_writable(&dir).is_ok() {
        findings.push(disk::check(&dir));
    }
    let stores = match open_stores(&dir).await {
        Ok(stores) => stores,
        Err(error) => {
            findings.push(Finding::fault("data", Words::Error(format!("{error:#}"))));
            return findings;
        }
    };
    // A user without write permission gets this far if the program runs.
    let is_writable = match check_writable(&dir) {
        Ok(()) => {
            findings.push(Finding::ok("data", Words::Value(shown)));
            true
        }
        Err(error) => {
            findings.push(Finding::fault("data", Words::DataOfAnother { error: format!("{error:#}") }));
            false
        }
    };
    findings.extend(stack::table_shape(&stores.dynamodb, TABLE).await);
    match stores.s3.head_bucket().bucket(BUCKET).send().await {
        Ok(_) if is_writable => findings.push(Finding::ok("bucket", Words::LocalBucket)),
        // Reported above.
        Ok(_) => {}
        Err(error) => findings.push(Finding::fault("bucket", Words::Error(aws_message(&error)))),
    }
    findings.push(match LocalQueue::open(stores.dynamodb.clone(), Clock::system()).await {
        Ok((queue, _)) => Finding::ok("queue", Words::ChatsWait(queue.pending().len())),
        Err(error) => Finding::fault("queue", Words::Error(format!("{error:#}"))),
    });
    findings
}

/// Checks whether the program runs.
pub(super) async fn program(env: Env<'_>) -> Finding {
    let Ok(config) = LocalConfig::from_env(env) else {
        return Finding::none("program", Words::ProgramInvalid);
    };
    let base = format!("http://{}", SocketAddr::new(config.host, config.port));
    let client = tls::loopback_client().timeout(Duration::from_secs(5)).build();
    let answer = async { client?.get(format!("{base}/health")).send().await };
    match answer.await {
        Ok(answer) if answer.status().is_success() && is_worked_on(&config.data_dir) => {
            Finding::ok("program", Words::ProgramAnswers { base })
        }
        Ok(answer) if answer.status().is_success() => {
            let dir = config.data_dir.display().to_string();
            Finding::fault("program", Words::ProgramElsewhere { base, dir })
        }
        Ok(answer) => {
            let status = answer.status().as_u16();
            Finding::fault("program", Words::ProgramIsAnother { base, status })
        }
        Err(_) => Finding::fault("program", Words::ProgramSilent { base }),
    }
}
