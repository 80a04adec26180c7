use super::*;
use std::time::Instant;

fn endless() -> Result<(), Stopped> {
    loop {
        check()?;
        std::hint::spin_loop();
    }
}

#[test]
fn a_timeout_stops_endless_work() {
    let start = Instant::now();
    let limits = Limits::new().timeout(Duration::from_millis(20));
    assert_eq!(limits.within(endless), Err(Stopped::Timeout));
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(check(), Ok(()), "the scope is over");
}

#[test]
fn a_timeout_of_zero_begins_nothing() {
    let limits = Limits::new().timeout(Duration::ZERO);
    let begun = limits.within(|| -> Result<(), Stopped> { unreachable!("the time is over") });
    assert_eq!(begun, Err(Stopped::Timeout));
}

#[test]
fn the_longest_timeout_is_none() {
    let limits = Limits::new().timeout(Duration::MAX);
    assert_eq!(limits.within(check), Ok(()));
}

#[test]
fn an_interrupt_reaches_inner_scopes_and_other_threads() {
    let interrupt = Interrupt::new();
    let outer = Limits::new().interrupt(&interrupt);
    let inner = Limits::new().timeout(Duration::from_secs(3600));
    let stopped = outer.within(|| {
        inner.within(|| {
            let scope = current();
            std::thread::scope(|threads| {
                let other = threads.spawn(|| super::enter(scope.as_ref(), endless));
                interrupt.interrupt();
                assert_eq!(other.join().expect("no panic"), Err(Stopped::Interrupted));
            });
            endless()
        })
    });
    assert_eq!(stopped, Err(Stopped::Interrupted));
    assert_eq!(
        outer.within(check),
        Err(Stopped::Interrupted),
        "it stays set"
    );
}

#[test]
fn who_was_not_stopped_goes_on() {
    let interrupt = Interrupt::new();
    interrupt.interrupt();
    let stopped = Limits::new().interrupt(&interrupt);
    let free = Limits::new().timeout(Duration::from_secs(3600));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..100 {
                assert!(stopped.within(check).is_err());
            }
        });
        for _ in 0..100 {
            assert_eq!(free.within(check), Ok(()));
        }
    });
}

#[test]
fn claims_are_counted_in_all_scopes() {
    let outer = Limits::new().memory(100);
    let inner = Limits::new().memory(1000);
    let done: Result<(), Stopped> = outer.within(|| {
        let first = claim(60)?;
        inner.within(|| {
            assert_eq!(room(), Some(40));
            let exceeded = Stopped::Memory {
                wanted: 50,
                used: 60,
                limit: 100,
            };
            assert_eq!(claim(50).err(), Some(exceeded));
            claim(40)?.keep();
            assert_eq!(room(), Some(0));
            Ok::<_, Stopped>(())
        })?;
        drop(first);
        assert_eq!(room(), Some(60), "what was kept is counted");
        assert!(claim(u64::MAX).is_err());
        Ok(())
    });
    assert_eq!(done, Ok(()));
    assert_eq!(room(), None);
}
