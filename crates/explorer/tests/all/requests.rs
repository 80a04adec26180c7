//! Questions in JSON: errors have a place, and nothing that is asked makes it panic.

use tegula_explorer::{Problem, Request, Session, answer};

fn ask(session: &mut Option<Session>, request: &str) -> serde_json::Value {
    let request: Request = serde_json::from_str(request).expect("a request");
    serde_json::from_str(&answer(session, request)).expect("JSON")
}

fn problem_of(text: &str) -> Problem {
    match Session::open(text) {
        Err(problem) => problem,
        Ok(_) => panic!("it was read: {text}"),
    }
}

#[test]
fn errors_are_at_their_place() {
    let text =
        "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] add(x, z)\n}";
    let problem = problem_of(text);
    assert_eq!(problem.line, 4, "{problem:?}");
    assert!(problem.message.contains('z'), "{problem:?}");
    assert!(problem.to > problem.from);
    let kernel =
        "kernel k {\n  hbm x : f32[8,128] = parameter(0)\n  start x[:, :] -> nothing[:, :], s\n}";
    assert_eq!(problem_of(kernel).line, 3);
    let mlir = "module {\n  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n    %0 = stablehlo.add %a, %b : tensor<4xf32>\n    return %0 : tensor<4xf32>\n  }\n}";
    assert_eq!(problem_of(mlir).line, 3);
}

#[test]
fn odd_questions_have_answers() {
    let mut session = None;
    let error = |answer: serde_json::Value| {
        assert!(answer["error"]["message"].is_string(), "{answer}");
    };
    error(ask(&mut session, r#"{"ask":"graph"}"#));
    error(ask(&mut session, r#"{"ask":"open","text":""}"#));
    error(ask(&mut session, r#"{"ask":"open","text":"}{"}"#));
    let text = "HloModule m ENTRY main { x = f32[0,3] parameter(0) ROOT y = f32[0,3] add(x, x) }";
    let open = serde_json::json!({"ask": "open", "text": text}).to_string();
    assert!(ask(&mut session, &open)["ok"].is_object());
    assert!(ask(&mut session, r#"{"ask":"graph"}"#)["ok"].is_object());
    error(ask(
        &mut session,
        r#"{"ask":"reads","value":0,"elements":[0],"scope":"program"}"#,
    ));
    error(ask(
        &mut session,
        r#"{"ask":"reads","value":4000000,"elements":[0],"scope":"program"}"#,
    ));
    error(ask(&mut session, r#"{"ask":"edge","node":9,"operand":9}"#));
    error(ask(
        &mut session,
        r#"{"ask":"code","kernel":77,"isa":"x86_v3"}"#,
    ));
    error(ask(&mut session, r#"{"ask":"tpu","chip":"v99"}"#));
    for shape in [
        "f32[",
        "f32[?]",
        "(f32[2])",
        "f32[9223372036854775807,9]",
        "f32[2]{1,0}",
    ] {
        let request = serde_json::json!({"ask": "layout", "shape": shape}).to_string();
        error(ask(&mut session, &request));
    }
}

#[test]
fn padding_is_explained() {
    let mut session = None;
    let answer = ask(
        &mut session,
        r#"{"ask":"layout","shape":"f32[5,130]{1,0:T(8,128)}"}"#,
    );
    let why = answer["ok"]["why"].as_str().expect("a sentence");
    assert!(
        why.contains("rounded up to 256") && why.contains("rounded up to 8"),
        "{why}"
    );
    assert_eq!(answer["ok"]["padded_bytes"], 8 * 256 * 4);
}

const OPEN: &str = "HloModule rows
  add { a = f32[] parameter(0)
        b = f32[] parameter(1)
        ROOT s = f32[] add(a, b) }
  ENTRY main {
    x = f32[?,16] parameter(0)
    zero = f32[] constant(0)
    ROOT sums = f32[?] reduce(x, zero), dimensions={1}, to_apply=add
  }";

#[test]
fn open_sizes_have_every_view_at_sizes_that_are_given() {
    let mut session = None;
    let open = |sizes: serde_json::Value| {
        let mut request = serde_json::json!({"ask": "open", "text": OPEN});
        for (key, value) in sizes.as_object().expect("an object") {
            request[key] = value.clone();
        }
        request.to_string()
    };
    let opened = ask(&mut session, &open(serde_json::json!({})));
    let name = opened["ok"]["sizes"][0]["name"]
        .as_str()
        .expect("a size")
        .to_owned();
    assert_eq!(opened["ok"]["sizes"][0]["value"], 8, "{opened}");
    let sizes = serde_json::json!({"values": {name: 12, "another": 3}});
    let opened = ask(&mut session, &open(sizes));
    assert_eq!(opened["ok"]["sizes"][0]["value"], 12, "{opened}");
    let graph = ask(&mut session, r#"{"ask":"graph"}"#);
    let result = graph["ok"]["results"][0].as_u64().expect("a result");
    assert_eq!(
        graph["ok"]["values"][result as usize]["dims"],
        serde_json::json!([12])
    );
    let reads = serde_json::json!({"ask":"reads","value":result,"elements":[11],"scope":"program"});
    let reads = ask(&mut session, &reads.to_string());
    let sets = reads["ok"]["sets"].as_array().expect("sets");
    let x = sets
        .iter()
        .find(|set| set["name"] == "x")
        .expect("x is read");
    assert_eq!((&x["count"], &x["elements"][0]), (&16.into(), &176.into()));
    assert!(ask(&mut session, r#"{"ask":"memory"}"#)["ok"]["arena_bytes"].is_number());
    assert!(ask(&mut session, r#"{"ask":"assignment","chip":"v5e"}"#)["ok"].is_object());
    let opened = ask(&mut session, &open(serde_json::json!({"leave_open": true})));
    assert!(opened["ok"]["sizes"][0]["value"].is_null(), "{opened}");
    let graph = ask(&mut session, r#"{"ask":"graph"}"#);
    assert!(graph["ok"]["values"][result as usize]["dims"].is_null());
}
