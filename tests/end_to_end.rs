//! Whole-process tests: the program on a data directory of its own, with stand-ins for Telegram and for a model on the
//! loopback address. They assert what is stored and what the platform received.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their support: a panic is a failure that names its line"
)]

#[path = "end_to_end/access.rs"]
mod access;
#[path = "end_to_end/access_attacks.rs"]
mod access_attacks;
#[path = "end_to_end/albums.rs"]
mod albums;
#[path = "end_to_end/app.rs"]
mod app;
#[path = "end_to_end/approval_attacks.rs"]
mod approval_attacks;
#[path = "end_to_end/approvals.rs"]
mod approvals;
#[path = "end_to_end/approvers.rs"]
mod approvers;
#[path = "end_to_end/archive.rs"]
mod archive;
#[path = "end_to_end/archive_first.rs"]
mod archive_first;
#[path = "end_to_end/archived_reads.rs"]
mod archived_reads;
#[path = "end_to_end/at_once.rs"]
mod at_once;
#[path = "end_to_end/authors.rs"]
mod authors;
#[path = "end_to_end/aws.rs"]
mod aws;
#[path = "end_to_end/backlog.rs"]
mod backlog;
#[path = "end_to_end/batches.rs"]
mod batches;
#[path = "../bench/chat.rs"]
mod bench;
#[path = "end_to_end/binary.rs"]
mod binary;
#[path = "end_to_end/blocked.rs"]
mod blocked;
#[path = "end_to_end/bounds.rs"]
mod bounds;
#[path = "end_to_end/budgets.rs"]
mod budgets;
#[path = "end_to_end/bursts.rs"]
mod bursts;
#[path = "end_to_end/chat.rs"]
mod chat;
#[path = "end_to_end/chat_tools.rs"]
mod chat_tools;
#[path = "end_to_end/chats.rs"]
mod chats;
#[path = "end_to_end/commands.rs"]
mod commands;
#[path = "end_to_end/compact_command.rs"]
mod compact_command;
#[path = "end_to_end/compaction.rs"]
mod compaction;
#[path = "end_to_end/console.rs"]
mod console;
#[path = "end_to_end/constant_cost.rs"]
mod constant_cost;
#[path = "end_to_end/crash.rs"]
mod crash;
#[path = "end_to_end/crash_compacting.rs"]
mod crash_compacting;
#[path = "end_to_end/delivery.rs"]
mod delivery;
#[path = "end_to_end/doctor.rs"]
mod doctor;
#[path = "end_to_end/due.rs"]
mod due;
#[path = "end_to_end/edited_commands.rs"]
mod edited_commands;
#[path = "end_to_end/edits.rs"]
mod edits;
#[path = "end_to_end/events.rs"]
mod events;
#[path = "end_to_end/exposure.rs"]
mod exposure;
#[path = "end_to_end/fixtures.rs"]
mod fixtures;
#[path = "end_to_end/forgetting.rs"]
mod forgetting;
#[path = "end_to_end/forgotten.rs"]
mod forgotten;
#[path = "end_to_end/groups.rs"]
mod groups;
#[path = "end_to_end/http_access.rs"]
mod http_access;
#[path = "end_to_end/http_limits.rs"]
mod http_limits;
#[path = "end_to_end/http_messages.rs"]
mod http_messages;
#[path = "end_to_end/http_reads.rs"]
mod http_reads;
#[path = "end_to_end/images.rs"]
mod images;
#[path = "end_to_end/import.rs"]
mod import;
#[path = "end_to_end/keeping.rs"]
mod keeping;
#[path = "end_to_end/kept.rs"]
mod kept;
#[path = "end_to_end/large.rs"]
mod large;
#[path = "end_to_end/lark.rs"]
mod lark;
#[path = "end_to_end/lark_runs.rs"]
mod lark_runs;
#[path = "end_to_end/late.rs"]
mod late;
#[path = "end_to_end/lifecycle.rs"]
mod lifecycle;
#[path = "end_to_end/lines.rs"]
mod lines;
#[path = "end_to_end/memory.rs"]
mod memory;
#[path = "end_to_end/memory_store.rs"]
mod memory_store;
#[path = "end_to_end/memory_tools.rs"]
mod memory_tools;
#[path = "end_to_end/messages.rs"]
mod messages;
#[path = "end_to_end/metrics.rs"]
mod metrics;
#[path = "end_to_end/migrations.rs"]
mod migrations;
#[path = "end_to_end/models.rs"]
mod models;
#[path = "end_to_end/openapi.rs"]
mod openapi;
#[path = "end_to_end/outside_tools.rs"]
mod outside_tools;
#[path = "end_to_end/paced.rs"]
mod paced;
#[path = "end_to_end/paging.rs"]
mod paging;
#[path = "end_to_end/poisoned.rs"]
mod poisoned;
#[path = "end_to_end/progress.rs"]
mod progress;
#[path = "end_to_end/random_histories.rs"]
mod random_histories;
#[path = "end_to_end/reading.rs"]
mod reading;
#[path = "end_to_end/recalled.rs"]
mod recalled;
#[path = "end_to_end/remembering.rs"]
mod remembering;
#[path = "end_to_end/replay.rs"]
mod replay;
#[path = "end_to_end/reports.rs"]
mod reports;
#[path = "end_to_end/reset.rs"]
mod reset;
#[path = "end_to_end/room.rs"]
mod room;
#[path = "end_to_end/runs.rs"]
mod runs;
#[path = "end_to_end/scale.rs"]
mod scale;
#[path = "end_to_end/security.rs"]
mod security;
#[path = "end_to_end/settings.rs"]
mod settings;
#[path = "end_to_end/setup.rs"]
mod setup;
#[path = "end_to_end/signs.rs"]
mod signs;
#[path = "end_to_end/silent.rs"]
mod silent;
#[path = "end_to_end/sixty_days.rs"]
mod sixty_days;
#[path = "end_to_end/speakers.rs"]
mod speakers;
#[path = "end_to_end/stop.rs"]
mod stop;
#[path = "end_to_end/stopped.rs"]
mod stopped;
#[path = "end_to_end/strangers.rs"]
mod strangers;
#[path = "end_to_end/streaming.rs"]
mod streaming;
mod support;
#[path = "end_to_end/template.rs"]
mod template;
#[path = "end_to_end/terminal.rs"]
mod terminal;
#[path = "end_to_end/tool_rounds.rs"]
mod tool_rounds;
#[path = "end_to_end/topics.rs"]
mod topics;
#[path = "end_to_end/turns.rs"]
mod turns;
#[path = "end_to_end/updates.rs"]
mod updates;
#[path = "end_to_end/upkeep.rs"]
mod upkeep;
#[path = "end_to_end/waiting_attacks.rs"]
mod waiting_attacks;
#[path = "end_to_end/windows.rs"]
mod windows;
#[path = "end_to_end/wrong_keys.rs"]
mod wrong_keys;
