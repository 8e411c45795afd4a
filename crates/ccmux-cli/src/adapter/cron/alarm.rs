//! What wakes an adapter that keeps times: its alarm, a clock that was set, a signal. It sleeps without a tick meanwhile.
//!
//! ```text
//! timerfd, on the wall clock ─┐
//!                             ├─► Wake          elsewhere than on Linux: one look at the clock a minute
//! SIGTERM, SIGINT, SIGHUP ────┘
//! ```

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Why the adapter goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It may be time; also if somebody set the clock.
    Alarm,
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    End,
}

/// One alarm and the signals.
#[derive(Debug)]
pub struct Alarm {
    wakes: Receiver<Wake>,
    clock: clock::Clock,
}

impl Alarm {
    /// From now on signals don't end the process: they are told by [`Alarm::wait`].
    pub fn new() -> io::Result<Self> {
        let (sender, wakes) = mpsc::channel();
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let tell = sender.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let wake = if signal == SIGHUP { Wake::Reload } else { Wake::End };
                if tell.send(wake).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { wakes, clock: clock::Clock::new(sender)? })
    }

    /// Sleeps until a moment on the wall clock, or for a span at most.
    pub fn wait(&self, until: Option<Timestamp>, at_most: Option<Duration>) -> io::Result<Wake> {
        let Some(limit) = self.clock.arm(until, at_most)? else {
            return self.wakes.recv().map_err(io::Error::other);
        };
        match self.wakes.recv_timeout(limit) {
            Ok(wake) => Ok(wake),
            Err(RecvTimeoutError::Timeout) => Ok(Wake::Alarm),
            Err(error @ RecvTimeoutError::Disconnected) => Err(io::Error::other(error)),
        }
    }
}

#[cfg(target_os = "linux")]
mod clock {
    //! A timerfd on the wall clock: it also tells that the clock was set, and runs on while the machine sleeps.

    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use rustix::io::Errno;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    use super::{Duration, Sender, Timestamp, Wake, io, thread};

    /// Nothing comes due: only a clock that is set is worth a look.
    const NEVER: i64 = 1 << 40;

    #[derive(Debug)]
    pub struct Clock {
        timer: Arc<OwnedFd>,
    }

    impl Clock {
        pub fn new(tell: Sender<Wake>) -> io::Result<Self> {
            let timer = Arc::new(timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?);
            let ringing = Arc::clone(&timer);
            thread::Builder::new().name("alarm".into()).spawn(move || ring(&ringing, &tell))?;
            Ok(Self { timer })
        }

        /// Sets the alarm; the limit of the sleep that is not the alarm's business.
        pub fn arm(
            &self,
            until: Option<Timestamp>,
            at_most: Option<Duration>,
        ) -> io::Result<Option<Duration>> {
            // Zero would switch it off.
            let seconds = until.map_or(NEVER, Timestamp::as_second).max(1);
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let at = Itimerspec { it_interval: zero, it_value: Timespec { tv_sec: seconds, tv_nsec: 0 } };
            let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
            match timerfd_settime(&self.timer, flags, &at) {
                Ok(_) => Ok(at_most),
                // The clock was set since the last look.
                Err(Errno::CANCELED) => Ok(Some(Duration::ZERO)),
                Err(error) => Err(error.into()),
            }
        }
    }

    fn ring(timer: &OwnedFd, tell: &Sender<Wake>) {
        let mut count = [0; 8];
        loop {
            match rustix::io::read(timer, &mut count) {
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::CANCELED) if tell.send(Wake::Alarm).is_ok() => {}
                _ => return,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod clock {
    //! A sleep of a minute at most: it does not count the time that the machine sleeps, nor see that the clock is set.

    use super::{Duration, Sender, Timestamp, Wake, io};

    const MINUTE: Duration = Duration::from_secs(60);

    #[derive(Debug)]
    pub struct Clock;

    impl Clock {
        #[allow(clippy::unnecessary_wraps, clippy::needless_pass_by_value)]
        pub fn new(_tell: Sender<Wake>) -> io::Result<Self> {
            Ok(Self)
        }

        #[allow(clippy::unnecessary_wraps)]
        pub fn arm(
            &self,
            until: Option<Timestamp>,
            at_most: Option<Duration>,
        ) -> io::Result<Option<Duration>> {
            let left = until.map(|until| Timestamp::now().duration_until(until));
            let left = left.map(|left| Duration::try_from(left).unwrap_or(Duration::ZERO));
            Ok([left, at_most].into_iter().flatten().chain([MINUTE]).min())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_rings_at_its_time_and_a_limit_earlier() {
        let alarm = Alarm::new().unwrap();
        let now = Timestamp::now();
        let soon = Timestamp::from_second(now.as_second() + 1).unwrap();
        assert_eq!(alarm.wait(Some(soon), None).unwrap(), Wake::Alarm);
        assert!(Timestamp::now() >= soon);
        let late = Timestamp::from_second(now.as_second() + 3_600).unwrap();
        assert_eq!(alarm.wait(Some(late), Some(Duration::from_millis(1))).unwrap(), Wake::Alarm);
        assert!(Timestamp::now() < late);
    }

    #[test]
    fn an_alarm_in_the_past_rings_at_once() {
        let alarm = Alarm::new().unwrap();
        for past in [-5, 0, 1_000] {
            let past = Timestamp::from_second(past).unwrap();
            assert_eq!(alarm.wait(Some(past), Some(Duration::from_secs(60))).unwrap(), Wake::Alarm);
        }
    }
}
