//! Checks the local program: whether it runs, and its data directory.

use std::net::SocketAddr;
use std::time::Duration;

use annals_channel::finding::Finding;
use annals_channel::words;
use annals_core::settings::Env;
use annals_io::clock::Clock;
use annals_io::tls;

use super::{disk, stack};
use crate::config::{LocalConfig, data_dir};
use crate::histories::open_stores;
use crate::queue::LocalQueue;
use crate::stores::{Stores, TABLE, check_writable, files, is_worked_on};

/// Checks the data directory, by the stores of the `program` if this process is it: to open them again would delete its
/// temporary files.
pub(super) async fn check(env: Env<'_>, program: Option<&Stores>) -> Vec<Finding> {
    let dir = data_dir(env);
    let shown = dir.display().to_string();
    let mut findings = Vec::new();
    if dir.is_dir() && check_writable(&dir).is_ok() {
        findings.push(disk::check(&dir));
    }
    let opened = match program {
        Some(stores) => Ok(stores.clone()),
        None => open_stores(&dir).await,
    };
    let stores = match opened {
        Ok(stores) => stores,
        Err(error) => {
            findings.push(Finding::fault("data", format!("{error:#}")));
            return findings;
        }
    };
    // A user without write permission gets this far if the program runs.
    let is_writable = match check_writable(&dir) {
        Ok(()) => {
            findings.push(Finding::ok("data", shown));
            true
        }
        Err(error) => {
            let words = words!(
                "{error:#}: run this as the user who owns it",
                "{error:#}：请以数据所属的用户身份运行"
            );
            findings.push(Finding::fault("data", words));
            false
        }
    };
    findings.extend(stack::table_shape(&stores.dynamodb, TABLE).await);
    match stores.bucket.list("").await {
        Ok(_) if is_writable => findings.push(Finding::ok(
            "bucket",
            words!("bodies and segments can be stored", "可以保存消息正文和归档段"),
        )),
        // Reported above.
        Ok(_) => {}
        Err(error) => {
            let words = words!(
                "{error}; check the disk, and the permissions of the data directory",
                "{error}；请检查磁盘和数据目录的权限"
            );
            findings.push(Finding::fault("bucket", words));
        }
    }
    // Opening it would create it.
    if dir.join(files::QUEUE[0]).exists() {
        findings.push(match LocalQueue::open(&dir, Clock::system()) {
            Ok((queue, _)) => {
                let words = match queue.pending().len() {
                    1 => words!("1 chat waits for an answer", "1 个聊天在等待回答"),
                    count => words!("{count} chats wait for an answer", "{count} 个聊天在等待回答"),
                };
                Finding::ok("queue", words)
            }
            Err(error) => Finding::fault("queue", format!("{error:#}")),
        });
    }
    findings
}

/// Checks whether the program runs.
pub(super) async fn program(env: Env<'_>) -> Finding {
    let Ok(config) = LocalConfig::from_env(env) else {
        return Finding::none("program", words!("does not start with these settings", "用这些设置无法启动"));
    };
    let base = format!("http://{}", SocketAddr::new(config.host, config.port));
    let client = tls::loopback_client().timeout(Duration::from_secs(5)).build();
    let answer = async { client?.get(format!("{base}/health")).send().await };
    match answer.await {
        Ok(answer) if answer.status().is_success() && is_worked_on(&config.data_dir) => {
            Finding::ok("program", words!("answers at {base}", "在 {base} 有应答"))
        }
        Ok(answer) if answer.status().is_success() => {
            let dir = config.data_dir.display();
            let words = words!(
                "the program at {base} does not work on {dir}: set ANNALS_DATA_DIR as that program has it, or ANNALS_PORT to \
                 another",
                "{base} 的程序使用的不是 {dir}：请把 ANNALS_DATA_DIR 设为该程序的数据目录，或换一个 ANNALS_PORT"
            );
            Finding::fault("program", words)
        }
        Ok(answer) => {
            let status = answer.status().as_u16();
            let words = words!(
                "something else answers at {base} ({status}): set ANNALS_PORT to another",
                "{base} 由别的程序应答（{status}）：请换一个 ANNALS_PORT"
            );
            Finding::fault("program", words)
        }
        Err(_) => {
            let words = words!(
                "does not answer at {base}: start it with cargo run",
                "{base} 没有应答：请用 cargo run 启动"
            );
            Finding::fault("program", words)
        }
    }
}
