"""Operations of `infra/cloud/run` and its tests on the emulated account. Connects only to AWS_ENDPOINT_URL."""

import json
import os
import sys

import boto3
import yaml
from botocore.exceptions import ClientError

STACK = "annals"
SECRET = "annals"


def prepare(secrets_path):
    """Creates the secret, which must exist before a deployment, and checks that the emulator enforces policies."""
    with open(secrets_path) as secrets:
        boto3.client("secretsmanager").create_secret(Name=SECRET, SecretString=secrets.read())
    nobody = boto3.client("iam")
    nobody.create_user(UserName="nobody")
    key = nobody.create_access_key(UserName="nobody")["AccessKey"]
    session = boto3.Session(aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])
    try:
        session.client("secretsmanager").get_secret_value(SecretId=SECRET)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException"):
            return
        raise
    sys.exit("the emulator lets a user without a policy read the secret: IAM would prove nothing here")


def simplify(template_path):
    """Leaves out the alarms on a sum of metrics, which the emulator refuses."""
    with open(template_path) as file:
        template = yaml.safe_load(file)
    left_out = [
        name
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]
    ]
    for name in left_out:
        del template["Resources"][name]
    with open(template_path, "w") as file:
        yaml.safe_dump(template, file, sort_keys=False)
    print("not deployed:", ", ".join(left_out) or "nothing")


def connect():
    """Gives the HTTP API its routes, as the OpenAPI body in the translated template has them.

    AWS imports that body; the emulator drops it.
    """
    resources, _ = describe()
    template = boto3.client("cloudformation").get_template(StackName=STACK, TemplateStage="Processed")
    body = decided(template["TemplateBody"]["Resources"]["Api"]["Properties"]["Body"])
    gateway, functions = boto3.client("apigatewayv2"), boto3.client("lambda")
    integrations = {}
    for path, methods in body["paths"].items():
        for method, operation in methods.items():
            uri = operation["x-amazon-apigateway-integration"]["uri"]["Fn::Sub"]
            function = uri.split("${")[-1].removesuffix(".Arn}/invocations")
            if function not in resources:
                continue  # Its condition does not hold.
            if function not in integrations:
                arn = functions.get_function(FunctionName=resources[function])["Configuration"]["FunctionArn"]
                integrations[function] = gateway.create_integration(
                    ApiId=resources["Api"],
                    IntegrationType="AWS_PROXY",
                    IntegrationUri=arn,
                    PayloadFormatVersion="2.0",
                )["IntegrationId"]
            gateway.create_route(
                ApiId=resources["Api"],
                RouteKey=f"{method.upper()} {path}",
                Target=f"integrations/{integrations[function]}",
            )


def decided(value):
    """Resolves a value of the template as if all conditions were true. Parts of false ones name no resource."""
    if isinstance(value, dict):
        return decided(value["Fn::If"][1]) if "Fn::If" in value else {k: decided(v) for k, v in value.items()}
    return value


def write_description(path):
    """Writes the data that tests need: outputs, resources by logical id, and the functions' variables."""
    resources, outputs = describe()
    functions = boto3.client("lambda")
    stack = {"outputs": outputs, "resources": resources, "environments": {}, "functionUrls": {}}
    for name, physical in resources.items():
        if not physical.startswith(f"{STACK}-{name}"):
            continue
        try:
            configuration = functions.get_function_configuration(FunctionName=physical)
        except ClientError:
            continue
        stack["environments"][name] = configuration.get("Environment", {}).get("Variables", {})
        try:
            stack["functionUrls"][name] = functions.get_function_url_config(FunctionName=physical)["FunctionUrl"]
        except ClientError:
            pass
    with open(path, "w") as description:
        json.dump(stack, description, indent=2)


def batches(size, visibility, receives):
    """Sets the agent's batch size, and the number and the delay of the queue's attempts."""
    resources, outputs = describe()
    functions, sqs = boto3.client("lambda"), boto3.client("sqs")
    mappings = functions.list_event_source_mappings(FunctionName=resources["Agent"])["EventSourceMappings"]
    for mapping in mappings:
        functions.update_event_source_mapping(UUID=mapping["UUID"], BatchSize=int(size))
    dead = sqs.get_queue_attributes(QueueUrl=outputs["DeadLettersUrl"], AttributeNames=["QueueArn"])
    redrive = {"deadLetterTargetArn": dead["Attributes"]["QueueArn"], "maxReceiveCount": int(receives)}
    sqs.set_queue_attributes(
        QueueUrl=outputs["QueueUrl"],
        Attributes={"VisibilityTimeout": visibility, "RedrivePolicy": json.dumps(redrive)},
    )


def switch(is_on):
    """Turns the agent's poller of the queue on or off."""
    resources, _ = describe()
    functions = boto3.client("lambda")
    mappings = functions.list_event_source_mappings(FunctionName=resources["Agent"])["EventSourceMappings"]
    for mapping in mappings:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=is_on)


def relay(timeout):
    """Starts a run of the relay, as its schedule does, with this timeout in seconds. Does not wait for its end."""
    resources, _ = describe()
    functions = boto3.client("lambda")
    # A change would end the run that is under way.
    if functions.get_function_configuration(FunctionName=resources["Relay"])["Timeout"] != int(timeout):
        functions.update_function_configuration(FunctionName=resources["Relay"], Timeout=int(timeout))
    functions.invoke(FunctionName=resources["Relay"], InvocationType="Event", Payload=b"{}")


def print_logs():
    """Prints the last log lines of each function."""
    logs = boto3.client("logs")
    for group in logs.describe_log_groups()["logGroups"]:
        events = []
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"]):
            events += page["events"]
        lines = [(event["timestamp"], event["message"].rstrip()) for event in events]
        # The platform's lines for each call would crowd out those of the function.
        lines = [line for line in sorted(lines) if not line[1].startswith(("START ", "END ", "REPORT "))]
        for _, message in lines[-40:]:
            print(f"{group['logGroupName']}: {message}")


def describe():
    """Returns the stack's physical ids by logical id, and its outputs."""
    stacks = boto3.client("cloudformation")
    pages = stacks.get_paginator("list_stack_resources").paginate(StackName=STACK)
    resources = {
        resource["LogicalResourceId"]: resource["PhysicalResourceId"]
        for page in pages
        for resource in page["StackResourceSummaries"]
    }
    outputs = stacks.describe_stacks(StackName=STACK)["Stacks"][0].get("Outputs", [])
    return resources, {output["OutputKey"]: output["OutputValue"] for output in outputs}


if __name__ == "__main__":
    os.environ["AWS_ENDPOINT_URL"]  # Never the real AWS.
    commands = {
        "simplify": simplify,
        "prepare": prepare,
        "connect": connect,
        "describe": write_description,
        "batches": batches,
        "pause": lambda: switch(False),
        "resume": lambda: switch(True),
        "relay": relay,
        "logs": print_logs,
    }
    commands[sys.argv[1]](*sys.argv[2:])
