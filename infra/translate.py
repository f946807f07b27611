"""Translates the SAM template into CloudFormation for each combination of its optional parts, and checks the result.

    translate.py <template> <directory>

Writes `<directory>/<combination>.json`, the template for each combination with its conditions resolved and absent
resources removed. Fails if it refers to something absent, if the dashboard is not valid JSON, if it contains a part that
was not requested, or if a rule accepts a combination that cannot work. Runs in the SAM CLI's own Python, whose translator is
the one that CloudFormation uses.
"""

import json
import logging
import re
import sys
from pathlib import Path

from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform

# Of each platform's function, the parameters that create it.
CHANNELS = {
    folder.name.title(): {f"{folder.name.title()}Secret": f"annals/{folder.name}"}
    for folder in (Path(__file__).parent.parent / "shared/channels").iterdir()
}
ALL = {name: secret for parameters in CHANNELS.values() for name, secret in parameters.items()}
HTTP = {"HttpSecret": "annals/http"}
MODEL = {"Model": "openai:m", "ModelSecret": "annals/model"}
EVERYTHING = {
    **ALL, "DiscordRelay": "on", **HTTP, **MODEL, "AlarmEmail": "ops@example.com", "DoorConcurrency": "20", "StreamingConcurrency": "10",
    "AgentConcurrency": "10", "AgentMaximumTurns": "10", "CompactorConcurrency": "2", "Tracing": "Active",
    "EndpointUrl": "http://emulator:4566", "OtlpEndpoint": "http://collector:4318", "Architecture": "x86_64",
    "SecretsRevision": "2", "ToolsObject": "settings/annals/tools.json", "ToolsSecret": "annals/tools",
    "Admins": "telegram-42", "Console": "true", "BedrockModel": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "BedrockFallbackModel": "amazon.nova-*", "BedrockProfile": "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/a1b2c3",
}

ECHO = {"Model": "echo"}
# Name: parameters, and the functions that they create in addition to the agent and the compactor.
COMBINATIONS = {
    **{name.lower(): ({**ECHO, **parameters}, {name}) for name, parameters in CHANNELS.items()},
    "relay": ({**ECHO, **CHANNELS["Discord"], "DiscordRelay": "on"}, {"Discord", "Relay"}),
    "http": ({**ECHO, **HTTP}, {"Http", "HttpStreaming"}),
    "telegram-lark": ({**MODEL, **CHANNELS["Telegram"], **CHANNELS["Lark"]}, {"Telegram", "Lark"}),
    "tools": ({**MODEL, **HTTP, "Tools": '{"mcpServers": {"shop": {"url": "https://shop/mcp"}}}'}, {"Http", "HttpStreaming"}),
    "all": ({**MODEL, **ALL, **HTTP}, {*CHANNELS, "Http", "HttpStreaming"}),
    "everything": (EVERYTHING, {*CHANNELS, "Relay", "Http", "HttpStreaming"}),
    "restored": ({**ECHO, **HTTP, "RestoredTable": "annals-restored"}, {"Http", "HttpStreaming"}),
    "own-topic": ({**ECHO, **HTTP, "AlarmTopic": "arn:aws:sns:eu-central-1:123456789012:ops"}, {"Http", "HttpStreaming"}),
}
# Parameters that a rule refuses, and the rule.
REFUSED = {
    "AtLeastOneDoor": ECHO,
    "RelayHasDiscord": {**ECHO, **HTTP, "DiscordRelay": "on"},
    "HostedModelHasKeyOrServer": {**HTTP, "Model": "openai:m"},
    "OneDocumentOfTools": {**EVERYTHING, "Tools": "{}"},
    "OneAddressForAlarms": {**EVERYTHING, "AlarmTopic": "arn:aws:sns:eu-central-1:123456789012:ops"},
    "SetAsideTurnsAreLimited": {**EVERYTHING, "AgentMaximumTurns": "0"},
    "SchedulesNeedNotWait": {**EVERYTHING, "CompactorConcurrency": "1"},
}
# Parameters, and values that their patterns refuse.
REFUSED_VALUES = {"BedrockModel": "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "BedrockFallbackModel": "us-gov.amazon.nova-pro-v1:0"}

PSEUDO = {
    "AWS::AccountId": "123456789012", "AWS::Region": "eu-central-1", "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com", "AWS::StackName": "annals", "AWS::StackId": "arn:aws:cloudformation:stack",
}
NOTHING = object()


class Stack:
    """A template with its parameters' values."""

    def __init__(self, template: dict, given: dict[str, str]):
        self.template = template
        self.parameters = {}
        for name, parameter in template["Parameters"].items():
            value = given.get(name, parameter.get("Default"))
            assert value is not None, f"{name} has no default and is not given"
            pattern = parameter.get("AllowedPattern")
            assert pattern is None or re.fullmatch(pattern, str(value)), f"{name} does not take {value!r}"
            allowed = parameter.get("AllowedValues")
            assert allowed is None or str(value) in map(str, allowed), f"{name} does not take {value!r}"
            self.parameters[name] = str(value)
        unknown = given.keys() - self.parameters.keys()
        assert not unknown, f"no such parameters: {unknown}"
        self.made = {
            name: resource
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self.holds(template["Conditions"][resource["Condition"]])
        }

    def holds(self, condition) -> bool:
        """Evaluates a condition or a rule's assertion."""
        [(function, of)] = condition.items()
        match function:
            case "Fn::Equals":
                left, right = (self.resolved(side) for side in of)
                return str(left) == str(right)
            case "Fn::Not":
                return not self.holds(of[0])
            case "Fn::Or":
                return any(map(self.holds, of))
            case "Fn::And":
                return all(map(self.holds, of))
            case "Condition":
                return self.holds(self.template["Conditions"][of])
        raise ValueError(f"unknown in a condition: {function}")

    def broken_rules(self) -> set[str]:
        """Returns the rules that the parameters violate."""
        return {
            name
            for name, rule in self.template.get("Rules", {}).items()
            if self.holds(rule.get("RuleCondition", {"Fn::Equals": ["", ""]}))
            and not all(self.holds(assertion["Assert"]) for assertion in rule["Assertions"])
        }

    def reference(self, name: str) -> str:
        if name in self.parameters:
            return self.parameters[name]
        if name in PSEUDO:
            return PSEUDO[name]
        assert name in self.made, f"refers to {name}, which is not there"
        return f"annals-{name}"

    def attribute(self, name: str, attribute: str) -> str:
        assert name in self.made, f"refers to {name}.{attribute}, but there is no {name}"
        return f"arn:aws:made:::annals-{name}" if attribute == "Arn" else f"annals-{name}-{attribute}"

    def substituted(self, text: str, own: dict) -> str:
        def value(match: re.Match) -> str:
            name = match[1]
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in own:
                return str(self.resolved(own[name]))
            return self.attribute(*name.split(".", 1)) if "." in name else self.reference(name)

        return re.sub(r"\$\{([^}]+)\}", value, text)

    def resolved(self, value):
        """Resolves the intrinsic functions in `value`; NOTHING if it is absent."""
        if isinstance(value, list):
            return [item for item in map(self.resolved, value) if item is not NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(function, of)] = value.items()
            match function:
                case "Ref":
                    return NOTHING if of == "AWS::NoValue" else self.reference(of)
                case "Fn::GetAtt":
                    return self.attribute(*(of if isinstance(of, list) else of.split(".", 1)))
                case "Fn::Sub":
                    return self.substituted(of, {}) if isinstance(of, str) else self.substituted(*of)
                case "Fn::If":
                    return self.resolved(of[1] if self.holds(self.template["Conditions"][of[0]]) else of[2])
                case "Fn::Join":
                    return of[0].join(map(str, self.resolved(of[1])))
                case "Fn::FindInMap":
                    found, *keys = of
                    found = self.template["Mappings"][found]
                    for key in keys:
                        found = found[self.resolved(key)]
                    return found
            assert not function.startswith("Fn::"), f"unknown: {function}"
        pairs = ((name, self.resolved(of)) for name, of in value.items())
        return {name: of for name, of in pairs if of is not NOTHING}

    def outcome(self) -> dict:
        """Returns the resources and outputs that CloudFormation creates."""
        resources = {}
        for name, resource in self.made.items():
            needed = resource.get("DependsOn", [])
            for other in [needed] if isinstance(needed, str) else needed:
                assert other in self.made, f"{name} depends on {other}, which is not there"
            try:
                resources[name] = {key: self.resolved(of) for key, of in resource.items() if key != "Condition"}
            except AssertionError as error:
                raise AssertionError(f"{name} {error}") from None
        outputs = {
            name: self.resolved({key: of for key, of in output.items() if key != "Condition"})
            for name, output in self.template["Outputs"].items()
            if "Condition" not in output or self.holds(self.template["Conditions"][output["Condition"]])
        }
        return {"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources, "Outputs": outputs}


class NoPolicies:
    """The template names no managed policy."""

    def load(self) -> dict:
        return {}


def translated(text: str, given: dict[str, str]) -> dict:
    template = yaml_parse(text)
    for resource in template["Resources"].values():
        # As after `sam package`.
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/key"
    template["Globals"]["Function"].pop("CodeUri")
    return transform(template, dict(given), NoPolicies())


def check(name: str, stack: Stack, functions: set[str]) -> dict:
    broken = stack.broken_rules()
    assert not broken, f"is refused by {broken}"
    outcome = stack.outcome()
    made = {name for name, made in outcome["Resources"].items() if made["Type"] == "AWS::Lambda::Function"}
    assert made == functions | {"Agent", "Compactor"}, f"makes {made}"
    dashboard = json.loads(outcome["Resources"]["Dashboard"]["Properties"]["DashboardBody"])
    assert len(dashboard["widgets"]) > 10
    if "HttpStreaming" in made:
        # New function URLs answer 403 without both: https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
        permissions = [of["Properties"] for of in outcome["Resources"].values() if of["Type"] == "AWS::Lambda::Permission"]
        public = {of["Action"] for of in permissions if of["Principal"] == "*"}
        assert public == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}, public
        # Lambda takes 20,480 bytes of permissions for a function. Each route has one, here with the longest names and region.
        of_routes = [
            {
                "Sid": "s" * 100, "Effect": "Allow", "Principal": {"Service": of["Principal"]}, "Action": of["Action"],
                "Resource": "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:" + "f" * 64,
                "Condition": {"ArnLike": {"AWS:SourceArn": of["SourceArn"].replace("aws:execute-api:eu-central", "aws-us-gov:execute-api:us-gov-west")}},
            }
            for of in permissions if of["FunctionName"] == "annals-Http"
        ]
        policy = json.dumps({"Version": "2012-10-17", "Id": "default", "Statement": of_routes}, separators=(",", ":"))
        assert of_routes and len(policy) <= 20_480, f"has {len(policy)} bytes of permissions for Http"
    has_recipient = stack.parameters["AlarmEmail"] != "" or stack.parameters["AlarmTopic"] != ""
    assert ("AlarmWarning" in outcome["Outputs"]) != has_recipient, "warns wrongly that alarms reach nobody"
    if table := stack.parameters["RestoredTable"]:
        # The stack's own table stays, but nothing uses it.
        others = {name: of for name, of in outcome["Resources"].items() if name != "Table"}
        assert table in json.dumps(outcome["Outputs"]["Settings"]) and "annals-Table" not in json.dumps([others, outcome["Outputs"]])
    return outcome


def main(template: str, directory: str) -> None:
    logging.disable()  # of unused metrics
    text = Path(template).read_text()
    Path(directory).mkdir(parents=True, exist_ok=True)
    for name, (given, functions) in COMBINATIONS.items():
        try:
            outcome = check(name, Stack(translated(text, given), given), functions)
        except AssertionError as error:
            sys.exit(f"{template}, as {name}: {error}")
        Path(directory, f"{name}.json").write_text(json.dumps(outcome, indent=1))
        print(f"{name}: {len(outcome['Resources'])} resources")
    for rule, given in REFUSED.items():
        broken = Stack(translated(text, given), given).broken_rules()
        if broken != {rule}:
            sys.exit(f"{template}: {rule} should refuse {given}, but it is {broken or 'none'} that does")
    for parameter, value in REFUSED_VALUES.items():
        if re.fullmatch(yaml_parse(text)["Parameters"][parameter]["AllowedPattern"], value):
            sys.exit(f"{template}: {parameter} should refuse {value}")


main(*sys.argv[1:])
