//! Detects that a model refused a request for a summary or the like: [`is_refusal`].

/// Maximum number of characters of a refusal: a longer text has done some of the work.
const LONGEST: usize = 400;

/// Beginnings of refusals, in lower case, with `'` for each apostrophe, separated by bars. Each says that the *speaker*
/// does not or cannot: a summary may well begin with a person's apology.
const BEGINNINGS: &str = "i can't|i cannot|i can not|i am unable to|i'm unable to|i am not able to|i'm not able to|i won't|\
    i will not|i must decline|i have to decline|i'm afraid i can|i'm sorry|i am sorry|i apologize|\
    i apologise|sorry, i |sorry, but i|unfortunately, i |my apologies, but|as an ai|as a language model|\
    as a large language model|there is no conversation to|there is nothing to summar|\
    no conversation was provided|我无法|我不能|我没有办法|我没办法|我不便|我拒绝|无法提供|无法回答|无法满足|很抱歉|非常抱歉|抱歉|对不起|不好意思|作为一个ai|\
    作为一个人工智能|作为ai|作为人工智能|作为一个语言模型|作为语言模型|作为一名ai|作为一名人工智能|暂时无法";

/// Words of which one must follow a bare apology in the same or the next sentence.
const DECLINES: &str = "can't|cannot|can not|unable|not able|won't|will not|decline|don't have|do not have|couldn't|\
    could not|无法|不能|没办法|没有办法|不便|拒绝|不可以|没有足够|不了";

const APOLOGIES: &str =
    "i'm sorry|i am sorry|i apologize|i apologise|sorry, |my apologies|很抱歉|非常抱歉|抱歉|对不起|不好意思";

/// Maximum distance of that word from the apology, in characters.
const NEAR: usize = 60;

/// Returns true if `text` refuses the request: a short text that begins like a refusal, in English or Chinese. In doubt
/// returns false: a summary that mentions an apology is not a refusal.
pub fn is_refusal(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['#', '*', '"', '“', '>', ' ', '\n']);
    if text.is_empty() || text.chars().nth(LONGEST).is_some() {
        return false;
    }
    let text = text.to_lowercase().replace('’', "'");
    // Chinese is written with and without a space next to Latin letters.
    let closed_up = text.replace("ai ", "ai").replace(" ai", "ai");
    let begins = |beginning: &&str| text.starts_with(*beginning) || closed_up.starts_with(*beginning);
    // A text with the requested structure is an answer.
    if text.contains("\n#") || text.contains("\n- ") || text.contains("\n* ") || text.contains("\n1.") {
        return false;
    }
    match BEGINNINGS.split('|').find(begins) {
        None => false,
        Some(beginning) if APOLOGIES.split('|').any(|apology| beginning.starts_with(apology)) => {
            let near: String = text.chars().take(NEAR + beginning.chars().count()).collect();
            DECLINES.split('|').any(|declines| near.contains(declines))
        }
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_recognised() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "I’m sorry, but I can’t assist with that request.",
            "I cannot summarize this conversation because it contains harmful content.",
            "I can't do that.",
            "  I am unable to process this request.\n",
            "**I'm not able to** provide a summary of this.",
            "Sorry, I can't continue with this.",
            "As an AI language model, I cannot take part in this.",
            "As an AI, I don't have access to earlier conversations.",
            "I apologize, but I do not have enough information to summarize.",
            "Unfortunately, I can't share that.",
            "I must decline this request.",
            "There is no conversation to summarize.",
            "抱歉，我无法总结这段对话。",
            "很抱歉，我不能协助处理这个请求。",
            "对不起，我无法提供相关内容。",
            "对不起,我无法回答",
            "我无法满足这个要求。",
            "非常抱歉，作为一个AI助手，我没办法对此进行总结。",
            "作为一个人工智能语言模型，我不能参与这类话题。",
            "作为一个 AI 助手，我还没学会回答这个问题。",
        ] {
            assert!(is_refusal(text), "{text}");
        }
    }

    #[test]
    fn summaries_are_not() {
        let long =
            format!("I cannot stress enough what was decided: {}", "the move is on Friday. ".repeat(20));
        for text in [
            "",
            "   ",
            "Goal: plan the trip. Ada said \"I'm sorry, but I can't come on Friday\", so it moved to Saturday.",
            "The user asked for a refund. The assistant apologised and said that it cannot refund card payments.",
            "Sorry is what Tom said; the report is due on Monday.",
            "I'm sorry, Ada wrote to Tom, and they agreed to meet on Monday at ten in the usual place near the river.",
            "## Goal\nPlan the trip.\n- I cannot come: Ada",
            "I cannot come on Friday, said Ada.\n- Decision: Saturday\n- Open: who books the train",
            "目标：预订机票。用户说“对不起，我不能周五出发”，于是改到周六。",
            "抱歉的是小陈：他迟到了十分钟，会议改在四点，老吴负责纪要。",
            "用户要求退款，客服表示抱歉，称无法直接退款，需要到苹果的页面申请。",
            "对不起这件事，小王已经向小李道过歉，两人约好周三一起去看展。",
            &long,
        ] {
            assert!(!is_refusal(text), "{text}");
        }
    }
}
