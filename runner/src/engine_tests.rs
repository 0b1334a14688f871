use std::os::unix::fs::PermissionsExt;

use super::*;

/// An engine that is a shell script, in a folder of its own.
fn engine(script: &str) -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("engine");
    // Written under another name first: a file that is open for writing cannot be executed.
    let draft = folder.path().join("draft");
    std::fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&draft, &binary).unwrap();
    let engine = Engine {
        binary,
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: folder.path().to_owned(),
        user: None,
        grace: Duration::from_secs(20),
        deadline: Instant::now() + Duration::from_secs(60),
        stop: Stop::default(),
        end_leftovers: false,
    };
    (folder, engine)
}

fn log() -> Log {
    Log::new(Box::new(std::io::sink()), 1024 * 1024)
}

fn text(log: &mut Log) -> String {
    String::from_utf8(log.finish()).unwrap()
}

#[test]
fn both_streams_reach_the_log_and_the_exit_code_is_told() {
    let (_folder, engine) = engine("echo '{\"@message\":\"hello\"}'; echo oops >&2; printf end; exit 2");
    let mut log = log();
    let ended = engine.run(&["plan"], Output::Log, &mut log).unwrap();
    assert_eq!((ended.code, ended.stopped), (2, None));
    let text = text(&mut log);
    assert!(text.contains("hello\n") && text.contains("oops\n") && text.contains("end\n"), "{text}");
}

#[test]
fn the_engine_sees_no_environment_but_the_one_it_is_given() {
    let (_folder, mut engine) = engine("env | sort");
    engine.environment.push(("TF_INPUT".into(), "0".into()));
    let ended = engine.run::<&str>(&[], Output::Keep(4096), &mut log()).unwrap();
    let names: Vec<String> = String::from_utf8(ended.kept)
        .unwrap()
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
        // The shell's own.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str()))
        .collect();
    assert_eq!(names, ["PATH", "TF_INPUT"]);
}

#[test]
fn a_stop_reaches_the_engine_alone_and_it_is_waited_for() {
    // The helper in its group would write `killed` on a TERM; the engine saves first and ends it itself afterwards.
    let (folder, engine) = engine(
        "sh -c 'trap \"echo helper > killed\" TERM; touch ready; while :; do sleep 0.05; done' &\n\
         trap 'sleep 0.3; echo saved; exit 1' TERM\nwhile :; do sleep 0.05; done",
    );
    let stop = engine.stop.clone();
    let ready = folder.path().join("ready");
    let waiter = std::thread::spawn(move || {
        while !ready.exists() {
            std::thread::yield_now();
        }
        stop.request();
    });
    let mut log = log();
    let ended = engine.run(&["apply"], Output::Log, &mut log).unwrap();
    waiter.join().unwrap();
    assert_eq!((ended.code, ended.stopped), (1, Some(Stopped::Signal)));
    assert!(text(&mut log).contains("saved\n"));
    assert!(!folder.path().join("killed").exists(), "the group was signalled");
}

#[test]
fn what_stays_in_the_group_is_ended_after_the_engine() {
    let (folder, engine) =
        engine("sh -c 'echo $$ > helper; while :; do sleep 0.05; done' &\nwhile [ ! -s helper ]; do sleep 0.02; done");
    let ended = engine.run(&["apply"], Output::Log, &mut log()).unwrap();
    assert_eq!(ended.code, 0);
    let helper: i32 = std::fs::read_to_string(folder.path().join("helper")).unwrap().trim().parse().unwrap();
    let gone = || match std::fs::read_to_string(format!("/proc/{helper}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'),
    };
    let until = Instant::now() + Duration::from_secs(10);
    while !gone() && Instant::now() < until {
        std::thread::yield_now();
    }
    assert!(gone(), "the helper outlived its engine");
}

#[test]
fn an_engine_that_takes_too_long_is_stopped_and_one_that_does_not_stop_is_killed() {
    let (_folder, mut engine) = engine("trap '' TERM; while :; do sleep 0.05; done");
    engine.deadline = Instant::now() + Duration::from_millis(200);
    engine.grace = Duration::from_millis(300);
    let mut log = log();
    let ended = engine.run(&["plan"], Output::Log, &mut log).unwrap();
    assert_eq!((ended.code, ended.stopped), (137, Some(Stopped::Deadline)));
    assert!(text(&mut log).contains("is killed"));
}

#[test]
fn a_document_beyond_its_limit_ends_the_engine() {
    let (_folder, engine) = engine("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
    let ended = engine.run(&["show"], Output::Keep(1000), &mut log()).unwrap();
    assert_eq!(ended.stopped, Some(Stopped::Output));
    assert!(ended.kept.is_empty());
    assert_ne!(ended.code, 0);
}
