use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(markdown: &str, expect: &str) {
    assert_eq!(to_code(markdown), expect, "{markdown}");
}

#[test]
fn formulas_in_a_text_become_code_spans() {
    check(r"so \(x\,y\), \( n \)", r"so `x\,y`, `n`");
    check("$x^*$ and $y^*$", "`x^*` and `y^*`");
    check(r"**是$\{1,2\}$。** # Winkel\(\alpha\)", r"**是`\{1,2\}`。** # Winkel`\alpha`");
    check(r"\(a\)\(b\)`c`", "`a` `b` `c`");
    check(r"a ` and \(x\)", "a ` and ``x``");
    check("| $x_1$ | $$y_1$$ |\n|--|--|\n| \\[ z_1 \\] | |", "| `x_1` | `y_1` |\n|--|--|\n| `z_1` | |");
    check(r"**\[ x_1 \]**, so \[ x_1 \], then", "**`x_1`**, so `x_1`, then");
    check("\\[ x_1 \\].\n> so \\[\n> y_1 \\]\n> - c $$\n>   z_1\n>   $$", "`x_1`.\n> so `y_1`\n> - c `z_1`");
}

#[test]
fn dollar_signs_are_paired_as_formulas() {
    check("let $x$ and $x_1$", "let `x` and `x_1`");
    check("$a*b$ and $c*d$", "`a*b` and `c*d`");
    check(r"若$P(A)$=0.5，$\sigma$=2", r"若`P(A)`=0.5，`\sigma`=2");
    check(r"$x > 0$时，y=1，$\sigma$", r"$x > 0$时，y=1，`\sigma`");
    check("若$$x$$=1，$$y_1$$", "若$$x$$=1，`y_1`");
    check("$n$-th, ($k$), **$x$**: $5, $6", "`n`-th, (`k`), **`x`**: $5, $6");
}

#[test]
fn formulas_on_their_own_become_code_blocks() {
    check("so\n\\[ a \\\\[2pt] b \\]\nthen", "so\n```latex\na \\\\[2pt] b\n```\nthen");
    check("$$\n  a\n=\n- b\n$$  ", "```latex\n  a\n=\n- b\n```  ");
    check("1. so:\n   \\[\n   x + y\n   \\]\n2. b", "1. so:\n   ```latex\n   x + y\n   ```\n2. b");
    check("- \\[ x_1 \\]\n- b \\[\ny_1 \\]", "- ```latex\n  x_1\n  ```\n- b `y_1`");
    check("> so\n> $$\n> > 0\n> $$", "> so\n> ```latex\n> > 0\n> ```");
    check("- > 1) \\[x +\n  >    y\\]", "- > 1) ```latex\n  >    x +\n  >    y\n  >    ```");
    check("so\n    \\[ x_1 \\]\n2. \\[ y_1 \\]", "so\n    `x_1`\n2. `y_1`");
}

#[test]
fn other_text_and_code_do_not_change() {
    for text in [
        "$5 and $6, or $5_000-$6_000, **$5** = **$6**",
        "US$5=HK$39, $A_B/$C_D, ${A}-${B}, $(a_b)/$(c), A$x_1$",
        "使用$_GET、$_POST, $A$1=$B$1, $/kg,$/lb",
        "1. **A** ($$): great. [Map](https://maps.app/?q=a)\n2. **B** ($$): ok",
        "**A** · $$ · [Map](https://maps.app/?q=a)\n**B** · $$, **C** ($$, x_1)",
        "- A\n  - $$\n  - x_1\n- B\n  - $$",
        "| $$ | q=1 |\n|--|--|\n| $5_1 | 6$ |\n| a | $$ |",
        r"f\(x\), a\[0\], - \[x\] done, \$x_1\$, \\(x\\), \[ \], \[my_link\](https://e.org)",
        "$$ is more than $, and $$$ than $$.",
        r"not closed: \(x\,y",
        "not closed: $x_1\n$$\nx_1",
        "\\[ x_1\n\ny_1 \\]",
        "> $$ x_1\n>\n> $$",
        "> $$\n> $$",
        "`$x_1$` and \\(x `y_1\\)`",
        "```\n\\(x_1\\)\n```\n\n    $x_1$",
        "[a](https://e.org/$x_1$) <https://e.org/$x_1$> <a b=\"$x_1$\">",
    ] {
        check(text, text);
    }
}

#[test]
fn a_small_text_does_not_become_a_large_one() {
    for part in [r"\[x_1\] ", r"\(", r"\[", "$", "$$", "$$ ", r"$x_1$ ", "\\[\n", "> ", "- ", "`"] {
        for before in [String::new(), "> ".repeat(500), "`".repeat(500)] {
            let source = before + &part.repeat(5000) + r"\[x_1\]";
            assert!(to_code(&source).len() < 20 * source.len(), "{part}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn formulas_are_code_and_the_rest_is_unchanged(
        pieces in prop::collection::vec((0..14_usize, "\n{1,2}"), 1..12),
    ) {
        let texts = [
            "w", "**b**", r"`\(c\,d\)`", "costs $5 and", "- item", "> quote", "1. one", "```\n$e_1$\n```",
        ];
        let formulas = [r"x\,y", "x^*", r"a \\ b", "f\\!\\left(\n- x\n= y", r"\{1\}", "n_1 > 0"];
        let delimiters = [
            (r"\(", r"\)"), ("$", "$"), (r"\[ ", r" \]"), ("$$\n", "\n$$"), ("$", "$"), (r"\[", r"\]"),
        ];
        let mut source = String::new();
        for (number, line_breaks) in &pieces {
            match number.checked_sub(texts.len()) {
                Some(formula) => {
                    let (opener, closer) = delimiters[formula];
                    source.extend([opener, formulas[formula], closer, line_breaks]);
                }
                None => source.extend([texts[*number], line_breaks]),
            }
        }
        let out = to_code(&source);
        let mut code = String::new();
        let mut in_block = false;
        for event in Parser::new_ext(&out, OPTIONS) {
            match event {
                Event::Start(Tag::CodeBlock(_)) => in_block = true,
                Event::End(pulldown_cmark::TagEnd::CodeBlock) => in_block = false,
                Event::Code(text) => code.push_str(&text),
                Event::Text(text) if in_block => code.push_str(&text),
                _ => {}
            }
        }
        let (mut out, mut code) = (out.as_str(), code.as_str());
        for (number, _) in &pieces {
            let formula = number.checked_sub(texts.len());
            for line in formula.map_or(texts[*number % texts.len()], |formula| formulas[formula]).lines() {
                let rest = out.split_once(line);
                prop_assert!(rest.is_some(), "{line}: {source}");
                out = rest.unwrap().1;
                if formula.is_some() {
                    let rest = code.split_once(line);
                    prop_assert!(rest.is_some(), "{line}: {source}");
                    code = rest.unwrap().1;
                }
            }
        }
    }

    #[test]
    fn nothing_is_lost_but_delimiters_and_white_space(source in r"[z1`$()\[\]{=_* \n>|\\-]{0,80}") {
        let rest = |text: &str| text.replace("latex", "").replace(|c| r"`$\()[]> ".contains(c) || c == '\n', "");
        prop_assert_eq!(rest(&to_code(&source)), rest(&source), "{}", source);
    }
}
