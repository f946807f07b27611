//! Compares each function's role in `infra/template.yaml` with the AWS calls that its program contains.
//!
//! A linker removes code that nothing refers to. So the calls that a function can make are those whose code its program
//! still holds. The deployed suite (`tests/cloud/`) shows that each role permits enough; only this shows that none permits
//! more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};
use serde_json::{Value, json};

use super::template::{TEMPLATE, properties};

/// The functions of the code that call AWS: file, name, action, resource. "secrets" are those that `ANNALS_SECRETS` names,
/// "tools" is the object that `TOOLS` may name, "agents" the folders of `AGENTS_FOLDER`, "models" are Bedrock's.
const CALLS: [(&str, &str, &str, &str); 38] = [
    ("table", "Table::put_new", "dynamodb:PutItem", "Table.Arn"),
    ("table", "Table::put_over", "dynamodb:PutItem", "Table.Arn"),
    ("together", "put_together", "dynamodb:ConditionCheckItem", "Table.Arn"),
    ("together", "put_replacing", "dynamodb:DeleteItem", "Table.Arn"),
    ("table", "Table::update", "dynamodb:UpdateItem", "Table.Arn"),
    ("table", "Table::get", "dynamodb:GetItem", "Table.Arn"),
    ("table", "Table::get_batch", "dynamodb:BatchGetItem", "Table.Arn"),
    ("table", "Table::query_all", "dynamodb:Query", "Table.Arn"),
    ("table", "Table::query_page", "dynamodb:Query", "Table.Arn"),
    ("table", "Table::query_attributes", "dynamodb:Query", "Table.Arn"),
    ("table", "Table::query_due", "dynamodb:Query", "Table.Arn/index/due"),
    ("table", "Table::delete_some", "dynamodb:BatchWriteItem", "Table.Arn"),
    ("table", "Table::delete_one", "dynamodb:DeleteItem", "Table.Arn"),
    ("shelf", "segment_of", "s3:GetObject", "Bucket.Arn/segments/*"),
    ("archive", "put_segment", "s3:PutObject", "Bucket.Arn/segments/*"),
    ("archive", "put_segment", "s3:GetObject", "Bucket.Arn/segments/*"),
    ("erase", "erase_in_segment", "s3:PutObject", "Bucket.Arn/segments/*"),
    ("parts", "put_index", "s3:PutObject", "Bucket.Arn/segments/*"),
    ("parts", "index_segment", "s3:GetObject", "Bucket.Arn/segments/*"),
    ("bodies", "put_body", "s3:PutObject", "Bucket.Arn/bodies/*"),
    ("bodies", "body", "s3:GetObject", "Bucket.Arn/bodies/*"),
    ("media", "keep_file", "s3:PutObject", "Bucket.Arn/media/*"),
    ("media", "file", "s3:GetObject", "Bucket.Arn/media/*"),
    ("forget", "erase_objects", "s3:DeleteObject", "Bucket.Arn/segments/*"),
    ("forget", "erase_objects", "s3:DeleteObject", "Bucket.Arn/bodies/*"),
    ("forget", "erase_objects", "s3:DeleteObject", "Bucket.Arn/media/*"),
    ("forget", "erase_objects", "s3:ListBucket", "Bucket.Arn"),
    ("erase", "erase_of", "s3:DeleteObject", "Bucket.Arn/bodies/*"),
    ("erase", "erase_of", "s3:DeleteObject", "Bucket.Arn/media/*"),
    ("erase", "erase_of", "s3:ListBucket", "Bucket.Arn"),
    ("queue", "Sqs::send", "sqs:SendMessage", "Queue.Arn"),
    ("queue", "Sqs::retry_in", "sqs:ChangeMessageVisibility", "Queue.Arn"),
    ("process", "Process::tools", "s3:GetObject", "tools"),
    ("process", "Process::profiles", "s3:GetObject", "agents"),
    ("process", "Process::profiles", "s3:ListBucket", "agents"),
    ("secrets", "fetch", "secretsmanager:GetSecretValue", "secrets"),
    // Without an SDK of its own.
    ("signing", "Signer::sign", "bedrock:InvokeModel", "models"),
    ("signing", "Signer::sign", "bedrock:InvokeModelWithResponseStream", "models"),
];

/// Functions that call AWS for their callers, which have the rows instead.
const FOR_OTHERS: [(&str, &str); 2] = [
    ("table", "query_span"),
    // Of `put_together`, and of an import.
    ("together", "transact"),
];

/// Functions of the crate for requests to AWS, and their actions; those of SQS and Secrets Manager have rows themselves.
const OF_BUCKETS: [(&str, &str); 5] = [
    ("Bucket::put", "s3:PutObject"),
    ("Bucket::put_new", "s3:PutObject"),
    ("Bucket::get", "s3:GetObject"),
    ("Bucket::delete", "s3:DeleteObject"),
    ("Bucket::list", "s3:ListBucket"),
];

/// Calls that the SDK contains for itself and that no function of this stack makes: roles to assume, in the relay, whose
/// credentials may come from anywhere.
const OF_THE_SDK: [&str; 2] = ["sts:AssumeRole", "sts:AssumeRoleWithWebIdentity"];

/// A permission: the template's condition that it depends on, the action, the resource.
type Grant = (Option<String>, String, String);

/// A test that calls [`check`](crate::permissions::check), in a file of its own:
/// `permissions!("Agent", env!("CARGO_BIN_EXE_agent"));`
#[macro_export]
macro_rules! permissions {
    ($function:literal, $program:expr) => {
        #[test]
        #[cfg_attr(not(debug_assertions), ignore = "an optimised program lacks the symbols")]
        fn the_role_permits_the_program_s_calls_and_no_others() {
            $crate::permissions::check($function, $program);
        }
    };
}

/// Compares the role of `function` with what `program` can call. In an optimised program, what is inlined has no symbol.
pub fn check(function: &str, program: &str) {
    every_call_has_a_row();
    let symbols = symbols(Path::new(program));
    let is_linked = |file: &str, name: &str| {
        let end = format!("::{file}::{name}");
        symbols.iter().any(|symbol| symbol.ends_with(&end))
    };
    let called: Vec<_> = CALLS.iter().filter(|(file, name, ..)| is_linked(file, name)).collect();

    let operations: BTreeSet<String> = symbols.iter().filter_map(|symbol| operation(symbol)).collect();
    assert!(operations.contains("dynamodb:PutItem"), "{function}: no call is found: {operations:?}");
    let known: BTreeSet<String> =
        called.iter().map(|(.., action, _)| (*action).to_owned()).chain(OF_THE_SDK.map(Into::into)).collect();
    let unknown: Vec<_> = operations.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "{function} calls {unknown:?}: which function of the code does, and on what?"
    );

    let mut needed: BTreeSet<Grant> = of_the_platform(function);
    let mut prefixes = BTreeSet::new();
    for (.., action, resource) in called {
        if *resource == "secrets" {
            needed.extend(secrets(function));
        } else if *resource == "tools" {
            let object = "arn:AWS::Partition:s3:::ToolsObject".to_owned();
            needed.insert((Some("HasToolsObject".to_owned()), (*action).into(), object));
            continue;
        } else if *resource == "agents" {
            let within = if *action == "s3:ListBucket" { "" } else { "/AgentsPrefix/*" };
            let folders = format!("arn:AWS::Partition:s3:::AgentsBucket{within}");
            needed.insert((Some("HasAgentsBucket".to_owned()), (*action).into(), folders));
            continue;
        } else if *resource == "models" {
            // No other model: the one that each parameter names, itself and by its profiles, an own profile, and the list of further ones.
            for named in ["BedrockModel", "BedrockFallbackModel"] {
                let models = [
                    format!("arn:AWS::Partition:bedrock:*::foundation-model/{named}"),
                    format!("arn:AWS::Partition:bedrock:*:AWS::AccountId:inference-profile/*.{named}"),
                ];
                needed
                    .extend(models.map(|models| (Some(format!("Has{named}")), (*action).to_owned(), models)));
            }
            // The compactor summarises with `MODEL` alone.
            let has_further = function != "Compactor";
            for named in has_further.then_some("BedrockModels").into_iter().chain(["BedrockProfile"]) {
                needed.insert((Some(format!("Has{named}")), (*action).to_owned(), named.to_owned()));
            }
        } else {
            needed.insert((None, (*action).into(), (*resource).into()));
        }
        if *action == "s3:GetObject" {
            // Without it S3 says 403 of an object that is not there.
            needed.insert((None, "s3:ListBucket".into(), "Bucket.Arn".into()));
        }
        if let Some(prefix) = resource.strip_prefix("Bucket.Arn/") {
            prefixes.insert(prefix);
        }
    }
    let granted = granted(function, &prefixes);
    let missing: Vec<_> = needed.difference(&granted).collect();
    assert!(missing.is_empty(), "{function} may not do what it does: {missing:#?}");
    let superfluous: Vec<_> = granted.difference(&needed).collect();
    assert!(superfluous.is_empty(), "{function} may do what it does not: {superfluous:#?}");
}

/// The names of the functions that `program` holds, without those of their types' traits and of their own closures.
fn symbols(program: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let names = file.symbols().filter_map(|symbol| symbol.name().ok());
    names
        .filter(|name| name.contains("annals_") || name.contains("aws_sdk_"))
        .map(|name| format!("{:#}", rustc_demangle::demangle(name)))
        .map(|name| match name.strip_prefix('<').and_then(|name| name.split_once('>')) {
            // `<Type as Trait>::function`, or `<Type>::function`
            Some((own, rest)) => own.split(" as ").next().unwrap_or_default().to_owned() + rest,
            None => name,
        })
        .map(|name| {
            match name
                .split_once("<impl ")
                .and_then(|(module, rest)| Some((module, rest.split_once(">::")?.1)))
            {
                // `module::<impl Type>::function`, of a type of another module
                Some((module, function)) => module.to_owned() + function,
                None => name,
            }
        })
        .map(|name| name.split("::{").next().unwrap_or_default().to_owned())
        .collect()
}

/// Returns the action of a symbol, if it is the one that sends a request.
fn operation(symbol: &str) -> Option<String> {
    let own = symbol.strip_prefix("annals_aws::bucket::");
    if let Some((_, action)) = own.and_then(|own| OF_BUCKETS.iter().find(|(name, _)| own == *name)) {
        return Some((*action).to_owned());
    }
    let path: Vec<&str> = symbol.split("::").collect();
    let [sdk, "operation", _, operation, "orchestrate_with_stop_point"] = path[..] else { return None };
    // A transaction has no action of its own: it needs those of its parts. Its puts and updates have other rows.
    let action =
        operation.replace("ListObjectsV2", "ListBucket").replace("TransactWriteItems", "ConditionCheckItem");
    Some(format!("{}:{action}", sdk.strip_prefix("aws_sdk_")?))
}

/// Returns the permissions that Lambda needs for the function: logs, traces, and receiving from its queue.
fn of_the_platform(function: &str) -> BTreeSet<Grant> {
    let function = properties(function);
    let grant = |action: &str, resource: String| (None, action.to_owned(), resource);
    let log = format!("{}.Arn", function["LoggingConfig"]["LogGroup"]["Ref"].as_str().unwrap());
    let mut grants: BTreeSet<Grant> =
        ["logs:CreateLogStream", "logs:PutLogEvents"].map(|action| grant(action, log.clone())).into();
    let traces = ["xray:PutTelemetryRecords", "xray:PutTraceSegments"];
    grants.extend(traces.map(|action| (Some("IsTraced".to_owned()), action.to_owned(), "*".to_owned())));
    let events = function["Events"].as_object().into_iter().flat_map(|events| events.values());
    for queue in events.filter(|event| event["Type"] == "SQS").map(|event| &event["Properties"]["Queue"]) {
        for action in ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"] {
            grants.insert(grant(action, resource(queue)));
        }
    }
    grants
}

/// To read the secrets that its environment names.
fn secrets(function: &str) -> BTreeSet<Grant> {
    let named = &properties(function)["Environment"]["Variables"]["ANNALS_SECRETS"];
    let named = match named["Fn::Join"].as_array() {
        Some(joined) => joined[1].as_array().unwrap().iter().collect(),
        None => vec![named],
    };
    let grant = |named: &Value| {
        let (condition, named) = conditional(named);
        let name = named["Ref"].as_str().unwrap();
        let resource =
            format!("arn:AWS::Partition:secretsmanager:AWS::Region:AWS::AccountId:secret:{name}-??????");
        (condition, "secretsmanager:GetSecretValue".to_owned(), resource)
    };
    named.into_iter().map(grant).collect()
}

/// Returns the permissions of its role. It may list under `prefixes` alone.
fn granted(function: &str, prefixes: &BTreeSet<&str>) -> BTreeSet<Grant> {
    let role = &properties(function)["Role"]["Fn::GetAtt"];
    assert_eq!(role[1], "Arn", "{function} has a role of its own");
    let role = properties(role[0].as_str().unwrap());
    assert!(role.get("ManagedPolicyArns").is_none(), "what a role may do stands in it");
    let policies = role["Policies"].as_array().unwrap().iter();
    let statements = policies.flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap());
    let mut grants = BTreeSet::new();
    for (condition, statement) in statements.map(conditional) {
        assert_eq!(statement["Effect"], "Allow");
        match statement.get("Condition") {
            Some(under) => {
                assert_eq!(statement["Action"], "s3:ListBucket", "{function}");
                let within = match condition.as_deref() {
                    Some("HasAgentsBucket") => json!({"Fn::Sub": "${AgentsPrefix}/*"}),
                    _ => json!(prefixes),
                };
                assert_eq!(*under, json!({"StringLike": {"s3:prefix": within}}), "{function}");
            }
            None => {
                assert!(!statement.to_string().contains("s3:ListBucket"), "{function} may list everything");
            }
        }
        for action in list(&statement["Action"]) {
            for on in list(&statement["Resource"]) {
                let action = action.as_str().unwrap().to_owned();
                let is_new = grants.insert((condition.clone(), action, resource(on)));
                assert!(
                    is_new,
                    "{function} is granted it twice: {action} on {on}",
                    action = statement["Action"]
                );
            }
        }
    }
    grants
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |items| items.iter().collect())
}

/// Returns a value of the template with the condition that it depends on, if any.
fn conditional(value: &Value) -> (Option<String>, &Value) {
    let Some(choice) = value["Fn::If"].as_array() else { return (None, value) };
    let condition = choice[0].as_str().unwrap();
    assert!(TEMPLATE["Conditions"].get(condition).is_some(), "{condition}");
    assert_eq!(choice[2]["Ref"], "AWS::NoValue", "{condition}");
    (Some(condition.to_owned()), &choice[1])
}

/// `Table.Arn/index/due`, `*`
fn resource(value: &Value) -> String {
    if let Some(choice) = value["Fn::If"].as_array() {
        // The same of the table that is in use in its place.
        assert_eq!(choice[0], "HasRestoredTable");
        let (restored, own) = (resource(&choice[1]), resource(&choice[2]));
        let table = "arn:AWS::Partition:dynamodb:AWS::Region:AWS::AccountId:table/RestoredTable";
        assert_eq!(restored, own.replace("Table.Arn", table));
        return own;
    }
    if let Some(attribute) = value["Fn::GetAtt"].as_array() {
        return format!("{}.{}", attribute[0].as_str().unwrap(), attribute[1].as_str().unwrap());
    }
    let named = value["Fn::Sub"].as_str().or(value["Ref"].as_str()).or(value.as_str());
    named.unwrap().replace("${", "").replace('}', "")
}

/// The code calls AWS, but for S3, in the functions of [`CALLS`] and [`FOR_OTHERS`] and nowhere else, and has each of them.
fn every_call_has_a_row() {
    let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    sources(&code.join("shared"), &mut files);
    for function in std::fs::read_dir(code.join("functions")).unwrap() {
        sources(&function.unwrap().path().join("src"), &mut files);
    }
    let requests: BTreeSet<String> = CALLS.iter().map(|(.., action, _)| request(action)).collect();
    let (mut calling, mut functions) = (BTreeSet::new(), BTreeSet::new());
    files.retain(|file| {
        let file = file.strip_prefix(&code).unwrap();
        !file.components().any(|part| part.as_os_str() == "tests") && !file.ends_with("tests.rs")
    });
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let mut within = "";
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once("fn ") {
                within = rest.split(['(', '<']).next().unwrap_or_default();
                functions.insert((name.clone(), within.to_owned()));
            }
            // Others have methods of such names.
            if (text.contains("aws_sdk_") || text.contains("annals_aws"))
                && requests.iter().any(|request| line.contains(request))
            {
                calling.insert((name.clone(), within.to_owned()));
            }
        }
    }
    let row = |(file, name): (&str, &str)| {
        (file.to_owned(), name.rsplit("::").next().unwrap_or_default().to_owned())
    };
    let rows: BTreeSet<_> =
        CALLS.iter().map(|(file, name, ..)| (*file, *name)).chain(FOR_OTHERS).map(row).collect();
    let without_row: Vec<_> = calling.difference(&rows).collect();
    assert!(without_row.is_empty(), "these call AWS, and no row says on what: {without_row:?}");
    let without_function: Vec<_> = rows.difference(&functions).collect();
    assert!(
        without_function.is_empty(),
        "these are said to call AWS, and do not exist: {without_function:?}"
    );
}

/// Returns what the code has for `action`: the SDK's method, `.put_item()`, or the operation's name, `"AmazonSQS.SendMessage"`.
fn request(action: &str) -> String {
    let (service, operation) = action.split_once(':').unwrap_or_default();
    match service {
        "sqs" => return format!("\"AmazonSQS.{operation}\""),
        "secretsmanager" => return format!("\"secretsmanager.{operation}\""),
        _ => {}
    }
    let operation = operation.replace("ConditionCheckItem", "TransactWriteItems");
    let mut request = String::from(".");
    for c in operation.chars() {
        if c.is_ascii_uppercase() && request.len() > 1 {
            request.push('_');
        }
        request.push(c.to_ascii_lowercase());
    }
    request + "()"
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
