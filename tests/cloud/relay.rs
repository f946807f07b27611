//! The relay of Discord's gateway, as a function that hands over to its next run.

use annals_io::clock::Clock;
use annals_test_support::discord_gateway::{DiscordGateway, Post};

use crate::stack::{Stack, beside, soon};

const GUILD: u64 = 8005;
const CHANNEL: u64 = 8050;
/// Timeout of a run, in seconds. It hands over 20 seconds earlier.
const TIMEOUT: &str = "40";

#[test]
#[ignore = "needs a deployed stack: just cloud"]
fn a_run_of_the_relay_hands_over_to_the_next_and_each_mention_is_answered_once() {
    beside(async |stack| {
        let gateway = DiscordGateway::start(Clock::system().now().as_millis()).await;
        stack.discord.set_gateway(gateway.url());
        gateway.add_guild(GUILD);
        gateway.add_channel(CHANNEL, Some(GUILD), 0);
        let ask = |text| {
            gateway.post(Post { channel: CHANNEL, author: 42, text, mentions_bot: true, ..Post::default() })
        };
        let answers = || {
            let sent = stack.discord.sent();
            sent.iter().filter(|sent| sent.channel_id == CHANNEL.to_string()).count()
        };
        Stack::tool(&["relay", TIMEOUT]);
        soon("the first run is connected", async || gateway.identifies() == 1).await;
        ask("before");
        soon("it is answered", async || answers() == 1).await;
        // Half of the first run: a second one that began with it would end with it.
        Clock::system().sleep(std::time::Duration::from_secs(10)).await;
        Stack::tool(&["relay", TIMEOUT]);
        soon("the second run continues the session", async || gateway.resumes() == 1).await;
        ask("after");
        soon("it is answered, too", async || answers() == 2).await;
        assert_eq!(gateway.identifies(), 1, "the second run began a session of its own");
        assert_eq!(gateway.faults(), [""; 0]);
        let said = stack.stored(&format!("agent:annals:channel:{GUILD}:{CHANNEL}")).await;
        assert_eq!(said.len(), 4, "{said:?}");
    });
}
