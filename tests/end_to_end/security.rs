//! `OpenClaw`'s 170 published [advisories], as of 2026-06-25, by classes of faults, and the tests that hold each class here.
//! A test checks that they exist. `SECURITY.md` sums up the classes that do not apply.
//!
//! [advisories]: https://github.com/openclaw/openclaw/security/advisories

use std::path::Path;

/// A class of faults.
struct Class {
    fault: &'static str,
    /// Some of `OpenClaw`'s advisories.
    advisories: &'static str,
    held: Held,
}

enum Held {
    /// By these tests: a file, and the test's name in it.
    By(&'static [&'static str]),
    /// The fault cannot exist here, for this reason.
    Impossible(&'static str),
    /// The operator must prevent it, in this way.
    ByTheOperator(&'static str),
}

use Held::{By, ByTheOperator, Impossible};

const CLASSES: &[Class] = &[
    Class {
        fault: "A link makes the control page connect elsewhere and send its token",
        advisories: "GHSA-g8p2-7wf7-98mq",
        held: By(&["tests/end_to_end/console.rs::the_page_and_its_files_come_compressed_and_are_kept"]),
    },
    Class {
        fault: "A web page reaches the local program: cross-site WebSockets and requests",
        advisories: "GHSA-5wcw-8jjv-m286, GHSA-3fqr-4cg8-h96q",
        held: By(&[
            "tests/end_to_end/http_access.rs::only_this_machine_and_pages_of_its_own_are_answered",
            "local/src/guard.rs::the_browser_reveals_pages_of_other_sites",
            "tests/console/outside.test.mjs::a page of another origin reads and forges nothing at any port of the program",
        ]),
    },
    Class {
        fault: "Local endpoints without authentication",
        advisories: "GHSA-g55j-c2v4-pjcg, GHSA-vpj2-69hf-rppw, GHSA-mr32-vwc2-5j6h, GHSA-mhgq-xpfq-6r66",
        held: By(&[
            "tests/end_to_end/http_access.rs::every_route_but_health_wants_a_known_key",
            "tests/end_to_end/aws.rs::the_emulated_aws_requires_a_key_that_survives_restarts",
            "tests/end_to_end/exposure.rs::the_program_listens_on_the_ports_that_it_names_and_on_no_other",
            "tests/end_to_end/exposure.rs::no_port_serves_the_stores_to_clients_that_do_not_sign_with_the_key",
        ]),
    },
    Class {
        fault: "Development settings reachable through a tunnel or proxy",
        advisories: "GHSA-pchc-86f6-8758",
        held: By(&[
            "local/src/guard.rs::every_header_of_a_tunnel_reveals_it",
            "local/src/config.rs::development_secrets_stay_on_loopback",
            "tests/end_to_end/exposure.rs::with_a_real_bot_no_development_secret_is_accepted",
        ]),
    },
    Class {
        fault: "Webhooks that fail open without a secret or signature",
        advisories: "GHSA-xh72-v6v9-mwhc, GHSA-4hg8-92x6-h2f3, GHSA-mp5h-m6qj-6292",
        held: By(&[
            "shared/core/src/secret.rs::only_the_whole_secret_is_the_same",
            "shared/channels/lark/src/verify/tests.rs::empty_secrets_match_nothing",
            "functions/telegram/tests/start.rs::a_setting_that_keeps_a_function_from_starting_is_one_line_that_names_it",
        ]),
    },
    Class {
        fault: "Replayed webhooks do something twice",
        advisories: "GHSA-r9q5-c7qc-p26w, GHSA-cg6c-q2hx-69h7",
        held: By(&[
            "tests/end_to_end/messages.rs::duplicates_change_nothing_concurrently_and_after_a_restart",
            "tests/end_to_end/lark.rs::an_event_becomes_one_record_and_one_reply_also_with_another_event_id_after_a_restart",
        ]),
    },
    Class {
        fault: "Bodies are read before the caller is known",
        advisories: "GHSA-q447-rj3r-2cgh, GHSA-rm59-992w-x2mv",
        held: By(&[
            "tests/end_to_end/reading.rs::forty_connections_with_a_wrong_secret_are_answered_before_their_bodies",
            "tests/end_to_end/reading.rs::an_unsigned_body_is_read_no_further_than_a_challenge_is_long",
            "shared/runtime/src/request_body.rs::large_bodies_share_a_limit_and_small_ones_never_wait",
        ]),
    },
    Class {
        fault: "Slow heads and bodies hold connections",
        advisories: "GHSA-q447-rj3r-2cgh",
        held: By(&[
            "local/src/server.rs::slow_headers_are_disconnected",
            "tests/end_to_end/reading.rs::slow_bodies_are_disconnected",
        ]),
    },
    Class {
        fault: "Guessing of secrets without a bound, or past one",
        advisories: "GHSA-5m9r-p9g7-679c, GHSA-5847-rm3g-23mw, GHSA-25wv-8phj-8p7r",
        held: By(&[
            "tests/end_to_end/wrong_keys.rs::an_address_that_guesses_waits_longer_and_longer_and_a_right_key_passes",
            "functions/http/src/wrong_keys.rs::the_source_is_what_the_nearest_trusted_hop_saw",
            "functions/http/src/settings.rs::a_secret_that_can_be_guessed_does_not_start_in_aws",
        ]),
    },
    Class {
        fault: "A caller declares its own rights",
        advisories: "GHSA-rqpp-rjj8-7wv8, GHSA-4jpw-hj22-2xmc, GHSA-r6xh-pqhr-v4xh",
        held: By(&["tests/end_to_end/http_access.rs::only_an_admin_reaches_the_chats_of_others"]),
    },
    Class {
        fault: "Speaking as somebody else: identities that collide or are claimed",
        advisories: "GHSA-wpph-cjgr-7c39, GHSA-wh94-p5m6-mr7j",
        held: By(&[
            "tests/end_to_end/http_access.rs::a_cursor_of_another_chat_shows_nothing_of_it",
            "tests/end_to_end/authors.rs::under_another_s_message_id_nothing_is_stored_answered_approved_or_remembered",
            "tests/end_to_end/authors.rs::on_the_web_nobody_says_another_s_message_again_and_another_try_leaves_it_its_author_s",
            "tests/end_to_end/authors.rs::on_a_platform_the_first_form_decides_who_asks_and_who_speaks",
        ]),
    },
    Class {
        fault: "Allowlists that match names which people can change, or are inherited",
        advisories: "GHSA-mj5r-hh7j-4gxf, GHSA-cw4q-gqg5-g38h, GHSA-g34w-4xqq-h79m",
        held: By(&[
            "tests/end_to_end/memory.rs::telegram_people_see_and_forget_their_own",
            "tests/end_to_end/strangers.rs::a_stranger_s_private_chat_is_neither_recorded_nor_answered",
            "tests/end_to_end/strangers.rs::a_stranger_s_business_connection_does_not_speak_for_whom_it_listens_to",
        ]),
    },
    Class {
        fault: "Approvals that show less than is done: cut, invisible or control characters",
        advisories: "GHSA-7q2j-c4q5-rm27, GHSA-xww8-gqvh-92x9, GHSA-pcqg-f7rg-xfvv, GHSA-4hmj-39m8-jwc7",
        held: By(&[
            "tests/end_to_end/approvals.rs::an_approved_call_is_made_once_and_the_reply_goes_on_days_and_restarts_later",
            "tests/end_to_end/approvers.rs::every_argument_is_shown_and_what_cannot_be_seen_is_written_out",
            "shared/channels/telegram/src/platform.rs::the_text_of_a_reply_does_not_change_how_arguments_look",
            "tests/console/talking.test.mjs::a request shows what nobody can see",
        ]),
    },
    Class {
        fault: "Approvals given by anyone who presses",
        advisories: "GHSA-j4c9-w69r-cw33, GHSA-w5ww-7chg-mxcq, GHSA-mgq6-vr84-7m2j, GHSA-jwrq-8g5x-5fhm",
        held: By(&[
            "tests/end_to_end/approvals.rs::only_who_asked_or_administers_may_answer",
            "tests/end_to_end/approvers.rs::all_askers_of_a_turn_must_approve",
            "tests/end_to_end/approvers.rs::on_lark_an_administrator_of_another_group_approves_nothing",
        ]),
    },
    Class {
        fault: "Approvals skipped because a call calls itself harmless",
        advisories: "GHSA-943q-mwmv-hhvh",
        held: By(&["tests/end_to_end/outside_tools.rs::a_server_cannot_declare_a_destructive_tool_harmless"]),
    },
    Class {
        fault: "Prompt injection: texts of strangers pass for instructions or for other speakers",
        advisories: "GHSA-782p-5fr5-7fj8, GHSA-57r2-h2wj-g887",
        held: By(&[
            "tests/end_to_end/memory.rs::over_http_a_conversation_of_several_people_shows_nobodys_entries",
            "tests/end_to_end/speakers.rs::people_are_distinguished_by_id_not_by_name",
            "tests/end_to_end/speakers.rs::a_member_s_text_cannot_pass_for_another_s_message_a_note_or_a_summary",
            "tests/end_to_end/poisoned.rs::an_entry_saved_after_an_outside_result_is_marked_and_can_be_undone",
        ]),
    },
    Class {
        fault: "Memory and search across sessions and people",
        advisories: "GHSA-72fw-cqh5-f324, GHSA-q2qc-744p-66r2",
        held: By(&[
            "tests/end_to_end/memory.rs::nobody_can_read_or_change_the_entries_of_others",
            "tests/end_to_end/memory_tools.rs::a_turn_sees_and_changes_the_memory_of_its_own_people_alone",
            "tests/end_to_end/poisoned.rs::with_memory_off_nothing_is_captured_or_recalled_and_entries_can_be_forgotten",
        ]),
    },
    Class {
        fault: "Texts of strangers in logs that are read by people or models",
        advisories: "GHSA-g27f-9qjv-22pm",
        held: By(&[
            "tests/end_to_end/http_limits.rs::a_request_has_one_name_in_its_answer_and_in_its_problem",
            "shared/runtime/src/telemetry.rs::messages_of_tool_servers_are_logged_only_if_requested",
        ]),
    },
    Class {
        fault: "Secrets in logs, errors and diagnoses",
        advisories: "GHSA-chf7-jq6g-qrwv, GHSA-8372-7vhw-cm6q",
        held: By(&[
            "shared/channels/telegram/src/client/tests.rs::no_error_shows_the_token",
            "shared/channels/lark/src/client/tests.rs::no_error_shows_a_secret_or_the_text_of_a_message",
            "shared/engine/src/settings.rs::errors_name_the_variable_and_never_its_value",
            "tests/end_to_end/exposure.rs::no_password_of_an_address_is_shown",
        ]),
    },
    Class {
        fault: "Headers with secrets follow a redirect",
        advisories: "GHSA-6mgf-v5j7-45cr, GHSA-68v4-hmwv-f43h, GHSA-rjxq-qqhf-8hwh",
        held: By(&["tests/end_to_end/outside_tools.rs::a_redirect_of_a_server_is_not_followed"]),
    },
    Class {
        fault: "Requests to addresses that a stranger names (SSRF)",
        advisories: "GHSA-jrvc-8ff5-2f9f, GHSA-2hh7-c75g-qj2r, CVE-2026-28467, CVE-2026-26322",
        held: By(&[
            "tests/end_to_end/images.rs::callers_of_the_api_send_bytes_and_nothing_is_fetched_for_them",
        ]),
    },
    Class {
        fault: "Files by names that a stranger gives, links, archives",
        advisories: "GHSA-58q2-7r52-jq62, GHSA-xwjm-j929-xq7c, GHSA-h89v-j3x9-8wqj",
        held: By(&["tests/end_to_end/console.rs::the_page_and_its_files_come_compressed_and_are_kept"]),
    },
    Class {
        fault: "Images that grow when they are decoded",
        advisories: "GHSA-w85g-3h6x-4xh2, GHSA-w2cg-vxx6-5xjg",
        held: By(&["shared/core/src/media/tests.rs::the_format_is_determined_by_the_first_bytes"]),
    },
    Class {
        fault: "Files that other users of the machine can read",
        advisories: "GHSA-rwp6-7w3q-75fq",
        held: By(&[
            "tests/end_to_end/access.rs::a_data_directory_is_its_owners_alone",
            "tests/end_to_end/exposure.rs::a_data_directory_that_was_open_is_closed_with_all_that_is_and_comes_in_it",
        ]),
    },
    Class {
        fault: "Links in what is shown and exported",
        advisories: "GHSA-w9hf-3pp7-pvxv",
        held: By(&["tests/console/talking.test.mjs::what is said can load nothing from elsewhere"]),
    },
    Class {
        fault: "Revoked and rotated secrets that go on working",
        advisories: "GHSA-xmxx-7p24-h892, GHSA-q8ff-7ffm-m3r9, GHSA-5h3f-885m-v22w",
        held: Impossible("nothing reloads secrets while it runs: a rotation is a new start"),
    },
    Class {
        fault: "Shell commands, their allowlists, wrappers and environments",
        advisories: "GHSA-mc68-q9jw-2h3v, GHSA-q284-4pvr-m585, GHSA-796m-2973-wc5q, GHSA-xvhf-x56f-2hpp and some fifty more",
        held: Impossible(
            "Annals runs no command: `TOOLS` takes addresses, and one with a `command` does not start",
        ),
    },
    Class {
        fault: "Sandboxes, containers, browsers that the agent drives",
        advisories: "GHSA-w235-x559-36mg, GHSA-92jp-89mq-4374, GHSA-25gx-x37c-7pph",
        held: Impossible("Annals has no such feature"),
    },
    Class {
        fault: "Plugins, skills, `.env` files and code of the working directory",
        advisories: "GHSA-r39h-4c2p-3jxp, GHSA-7wv4-cc7p-jhxc, GHSA-qrq5-wjgg-rvqw",
        held: ByTheOperator(
            "no code is loaded, but the local program reads `.env` and the agents of its working folder: start it in a folder of your own",
        ),
    },
    Class {
        fault: "More rights in the cloud than a function needs",
        advisories: "",
        held: By(&[
            "functions/agent/tests/permissions.rs::the_role_permits_the_program_s_calls_and_no_others",
            "tests/end_to_end/template.rs::no_role_may_use_every_model_or_list_the_whole_bucket",
            "tests/end_to_end/settings.rs::the_deployment_page_makes_a_secret_of_its_own_for_each_function",
        ]),
    },
];

#[test]
fn every_class_of_advisories_is_held_by_tests_that_exist_or_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for Class { fault, advisories, held } in CLASSES {
        let tests = match held {
            By(tests) => tests,
            Impossible(reason) | ByTheOperator(reason) => {
                assert!(!reason.is_empty(), "{fault}");
                continue;
            }
        };
        assert!(!tests.is_empty(), "no test holds {advisories}: {fault}");
        for test in *tests {
            let (file, name) = test.split_once("::").unwrap();
            let code =
                std::fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("there is no {file}"));
            let is_test = code.contains(&format!("fn {name}()")) || code.contains(&format!("test('{name}'"));
            assert!(is_test, "{file} has no test {name}");
        }
    }
}
