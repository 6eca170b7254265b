use super::contest::{CYCLE_SHIFT, PART_SHIFT};
use super::*;

const CYCLE_NS: u64 = 1 << CYCLE_SHIFT;

const MS: u64 = 1_000_000;

/// What the thread meets: what it loses while it spins, whether there is a CPU for it.
#[derive(Default)]
struct Met {
    lost_ns: u64,
    has_room: bool,
    is_in_table: bool,
    gave_way: u32,
    passed: u64,
    is_movable: bool,
    connections: usize,
}

impl World for Met {
    fn lost_ns(&mut self, _: u64) -> u64 {
        std::mem::take(&mut self.lost_ns)
    }

    fn give_way(&mut self) {
        self.gave_way += 1;
    }

    fn spins(&mut self, _: u64) -> bool {
        self.is_in_table = true;
        self.has_room
    }

    fn sleeps(&mut self) {
        self.is_in_table = false;
    }

    fn passed(&self) -> u64 {
        self.passed
    }

    fn is_movable(&self) -> bool {
        self.is_movable
    }

    fn connections(&self) -> usize {
        self.connections
    }
}

/// A thread in virtual time.
struct Thread {
    auto: Auto,
    met: Met,
    now_ns: u64,
    /// What a wait ends with.
    messages: [u64; 4],
}

impl Thread {
    fn new() -> Thread {
        Thread {
            auto: Auto::new(),
            met: Met { has_room: true, ..Met::default() },
            now_ns: 64 * CYCLE_NS,
            messages: [1; 4],
        }
    }

    /// A wait that takes as long as what it does costs, nanoseconds: spinning, giving way, sleeping, by the kernel. What it did first.
    fn wait(&mut self, costs_ns: [u64; 4]) -> Doing {
        let began_ns = self.now_ns;
        let doing = self.auto.begin(began_ns, &mut self.met);
        let ends_ns = began_ns + costs_ns[doing as usize];
        let mut slept = !doing.is_awake();
        while !slept && self.now_ns + 1000 < ends_ns {
            self.now_ns += 1000;
            slept = !self.auto.turn(self.now_ns, self.now_ns - began_ns, &mut self.met).is_awake();
        }
        self.now_ns = ends_ns;
        self.met.passed += self.messages[doing as usize];
        if slept {
            self.auto.slept(ends_ns - began_ns);
        }
        doing
    }

    /// Waits until so much time is over; what it did in most of them.
    fn wait_for(&mut self, time_ns: u64, costs_ns: [u64; 4], mut beside: impl FnMut(&mut Met, Doing)) -> Doing {
        let (ends_ns, mut done) = (self.now_ns + time_ns, [0_u64; 4]);
        while self.now_ns < ends_ns {
            let before_ns = self.now_ns;
            let doing = self.wait(costs_ns);
            beside(&mut self.met, doing);
            done[doing as usize] += self.now_ns - before_ns;
        }
        let all = [Doing::Spins, Doing::GivesWay, Doing::Sleeps, Doing::ByKernel];
        all.into_iter().max_by_key(|doing| done[*doing as usize]).unwrap()
    }
}

const SOON: [u64; 4] = [2_000, 3_000, 30_000, 30_000];

#[test]
fn calm_thread_whose_messages_come_soon_always_spins() {
    let mut thread = Thread::new();
    for _ in 0..100_000 {
        assert_eq!(thread.wait(SOON), Doing::Spins);
    }
    assert_eq!((thread.auto.now(), thread.met.is_in_table), ((Doing::Spins, Why::Calm), true));
}

#[test]
fn messages_that_come_late_are_slept_for_and_soon_ones_spun_for_again() {
    let mut thread = Thread::new();
    let late = [5 * MS; 4];
    (0..4).for_each(|_| _ = thread.wait(late));
    assert_eq!(thread.wait(late), Doing::Sleeps);
    assert_eq!((thread.auto.now(), thread.met.is_in_table), ((Doing::Sleeps, Why::Late), false));
    (0..LATE_MOST).for_each(|_| _ = thread.wait(SOON));
    assert_eq!(thread.wait(SOON), Doing::Spins);
}

#[test]
fn late_message_is_spun_for_no_longer_than_is_worth_it() {
    let mut thread = Thread::new();
    thread.wait(SOON);
    let began_ns = thread.now_ns;
    assert_eq!(thread.auto.begin(began_ns, &mut thread.met), Doing::Spins);
    assert_eq!(thread.auto.turn(began_ns + SOON_NS - 1, SOON_NS - 1, &mut thread.met), Doing::Spins);
    assert_eq!(thread.auto.turn(began_ns + SOON_NS, SOON_NS, &mut thread.met), Doing::Sleeps);
}

#[test]
fn neighbour_of_a_long_wait_gets_the_cpu() {
    let mut thread = Thread::new();
    thread.wait([100_000; 4]);
    assert!((3..=5).contains(&thread.met.gave_way), "{}", thread.met.gave_way);
    thread.met.gave_way = 0;
    (0..100).for_each(|_| _ = thread.wait(SOON));
    assert_eq!(thread.met.gave_way, 0, "not in short ones");
}

/// A neighbour that takes the CPU once in 4 ms.
fn neighbour() -> impl FnMut(&mut Met, Doing) {
    let mut waits = 0_u32;
    move |met, doing| {
        waits += 1;
        met.lost_ns += if doing == Doing::Spins && waits.is_multiple_of(2000) { 4 * MS } else { 0 };
    }
}

#[test]
fn preempted_thread_leaves_its_sockets_to_the_kernel_where_that_passes_as_many() {
    let mut thread = Thread::new();
    let equal = [20_000, 40_000, 20_000, 20_000];
    let mut waits = 0_u32;
    let mut beside = |met: &mut Met, doing: Doing| {
        waits += 1;
        met.lost_ns += if doing == Doing::Spins && waits.is_multiple_of(100) { 2 * MS } else { 0 };
    };
    thread.wait_for(3 * CYCLE_NS, equal, &mut beside);
    assert_eq!(thread.wait_for(CYCLE_NS, equal, &mut beside), Doing::ByKernel);
    assert_eq!(thread.auto.now().1, Why::Preempted);
}

#[test]
fn preempted_thread_sleeps_where_that_passes_more_than_the_kernels_way() {
    let mut thread = Thread::new();
    let costs_ns = [40_000, 40_000, 10_000, 13_000];
    thread.wait_for(3 * CYCLE_NS, costs_ns, neighbour_of_all());
    assert_eq!(thread.wait_for(CYCLE_NS, costs_ns, neighbour_of_all()), Doing::Sleeps);
}

#[test]
fn thread_that_lent_its_sockets_takes_them_back_for_trials_and_when_nobody_wants_its_cpu() {
    let mut thread = Thread::new();
    let costs_ns = [40_000, 40_000, 30_000, 10_000];
    assert!(!thread.auto.stays_by_kernel(thread.now_ns, &mut thread.met), "nobody wants it yet");
    thread.wait_for(3 * CYCLE_NS, costs_ns, neighbour_of_all());
    thread.now_ns = (thread.now_ns | (CYCLE_NS - 1)) + 6 * (1 << PART_SHIFT);
    assert!(thread.auto.stays_by_kernel(thread.now_ns, &mut thread.met));
    let next_cycle_ns = (thread.now_ns | (CYCLE_NS - 1)) + 1;
    let stays = |cycle: u64| thread.auto.stays_by_kernel(next_cycle_ns + cycle * CYCLE_NS, &mut thread.met);
    assert!(!(0..32).all(stays), "it spins once, at the begin of a cycle");
}

/// One that takes the CPU whatever the thread does while it is awake.
fn neighbour_of_all() -> impl FnMut(&mut Met, Doing) {
    |met, doing| met.lost_ns += if doing.is_awake() { 100_000 } else { 0 }
}

#[test]
fn preempted_thread_spins_where_spinning_passes_more_all_the_same() {
    let mut thread = Thread::new();
    let mut beside = neighbour();
    thread.wait_for(3 * CYCLE_NS, SOON, &mut beside);
    assert_eq!(thread.wait_for(CYCLE_NS, SOON, &mut beside), Doing::Spins);
    assert_eq!(thread.auto.now().1, Why::Preempted);
}

/// Sleeping may pass far more a moment later, when the scheduler has both ends on one CPU; spinning keeps them apart.
#[test]
fn preempted_thread_that_may_move_spins_only_where_that_passes_several_times_as_many() {
    let [some, many] = [10_000, 2_000].map(|spins_ns| [spins_ns, 12_000, 20_000, 20_000]);
    for (costs_ns, best) in [(some, Doing::ByKernel), (many, Doing::Spins)] {
        let mut thread = Thread::new();
        thread.met.is_movable = true;
        thread.wait_for(3 * CYCLE_NS, costs_ns, neighbour());
        assert_eq!(thread.wait_for(CYCLE_NS, costs_ns, neighbour()), best);
    }
}

#[test]
fn two_ends_on_one_cpu_give_way() {
    let mut thread = Thread::new();
    let together = [4 * MS, 3_000, 10_000, 10_000];
    let mut beside = |met: &mut Met, doing: Doing| met.lost_ns += if doing.is_awake() { 2 * MS } else { 0 };
    thread.wait_for(3 * CYCLE_NS, together, &mut beside);
    assert_eq!(thread.wait_for(CYCLE_NS, together, &mut beside), Doing::GivesWay);
}

#[test]
fn neighbour_that_left_is_forgotten() {
    let mut thread = Thread::new();
    thread.wait_for(3 * CYCLE_NS, SOON, neighbour());
    assert_eq!(thread.auto.now().1, Why::Preempted);
    thread.wait_for(3 * CYCLE_NS, SOON, |_, _| {});
    assert_eq!(thread.auto.now(), (Doing::Spins, Why::Calm));
}

#[test]
fn crowd_of_spinners_is_noticed_before_anybody_is_preempted() {
    let mut thread = Thread::new();
    thread.met.has_room = false;
    thread.wait_for(3 * MS, SOON, |_, _| {});
    assert_eq!(thread.auto.now().1, Why::Crowded);
}

#[test]
fn spinners_that_were_too_many_for_a_moment_are_no_crowd() {
    let mut thread = Thread::new();
    thread.met.has_room = false;
    thread.wait(SOON);
    thread.met.has_room = true;
    thread.wait_for(10 * MS, SOON, |_, _| {});
    assert_eq!(thread.auto.now(), (Doing::Spins, Why::Calm));
}

#[test]
fn ways_to_wait_are_compared_by_messages_and_not_by_waits() {
    let mut thread = Thread::new();
    // A thread that sleeps finds many messages at once.
    thread.messages = [1, 1, 8, 1];
    let mut beside = neighbour();
    thread.wait_for(3 * CYCLE_NS, [10_000, 10_000, 30_000, 30_000], &mut beside);
    assert_eq!(thread.wait_for(CYCLE_NS, [10_000, 10_000, 30_000, 30_000], &mut beside), Doing::Sleeps);
}

#[test]
fn what_is_bad_is_tried_for_less_than_a_hundredth_of_the_time() {
    let mut thread = Thread::new();
    let bad_to_spin = [40_000, 30_000, 5_000, 5_000];
    let mut beside = |met: &mut Met, doing: Doing| met.lost_ns += if doing.is_awake() { 100_000 } else { 0 };
    thread.wait_for(64 * CYCLE_NS, bad_to_spin, &mut beside);
    let (mut tried_ns, ends_ns) = (0, thread.now_ns + 64 * CYCLE_NS);
    while thread.now_ns < ends_ns {
        let before_ns = thread.now_ns;
        let doing = thread.wait(bad_to_spin);
        beside(&mut thread.met, doing);
        tried_ns += if doing.is_awake() { thread.now_ns - before_ns } else { 0 };
    }
    assert!((1..64 * CYCLE_NS / 100).contains(&tried_ns), "{tried_ns}");
}

#[test]
fn contest_that_begins_again_soon_knows_what_is_best() {
    let mut thread = Thread::new();
    thread.wait_for(8 * CYCLE_NS, SOON, neighbour());
    thread.wait_for(CYCLE_NS, SOON, |_, _| {});
    assert_eq!(thread.auto.now(), (Doing::Spins, Why::Calm));
    // Not at the begin of a cycle, where it would try.
    thread.now_ns = (thread.now_ns | (CYCLE_NS - 1)) + 4 * (1 << PART_SHIFT);
    thread.met.lost_ns = 10 * MS;
    thread.wait_for(5 * MS, SOON, |_, _| {});
    assert_eq!(thread.auto.now(), (Doing::Spins, Why::Preempted));
}

#[test]
fn thread_whose_cpu_others_want_sleeps_sooner_for_a_message_that_does_not_come() {
    let mut thread = Thread::new();
    thread.wait_for(3 * CYCLE_NS, SOON, neighbour());
    let began_ns = (thread.now_ns | (CYCLE_NS - 1)) + 1;
    assert_eq!(thread.auto.begin(began_ns, &mut thread.met), Doing::Spins);
    let waited_ns = SOON_IN_CONTEST_NS;
    assert_eq!(thread.auto.turn(began_ns + waited_ns, waited_ns, &mut thread.met), Doing::Sleeps);
}

#[test]
fn kernel_threads_that_preempt_for_microseconds_are_no_contest() {
    let mut thread = Thread::new();
    let mut waits = 0_u32;
    thread.wait_for(CYCLE_NS, SOON, |met, _| {
        waits += 1;
        met.lost_ns += if waits.is_multiple_of(1000) { 50_000 } else { 0 };
    });
    assert_eq!(thread.auto.now(), (Doing::Spins, Why::Calm));
}

#[test]
fn all_programs_try_the_same_at_the_same_time() {
    let mut contest = Contest::new(Why::Crowded, false);
    let mut done = |part: u64, passed: u64| contest.follow(9 * CYCLE_NS + (part << PART_SHIFT), passed);
    let tried = [Doing::ByKernel, Doing::GivesWay, Doing::Sleeps];
    for part in 0..12 {
        assert_eq!(done(part, part), tried[part as usize / 4], "{part}, the first time");
    }
    for part in 12..16 {
        // As good as the others, the kernel's way is known.
        assert_eq!(done(part, part), Doing::ByKernel, "{part}, the first time");
    }
    for part in 16..20 {
        assert_eq!(done(part, part), Doing::Spins, "{part}, the first time");
    }
    let trials = [Doing::Spins, Doing::GivesWay, Doing::Sleeps, Doing::ByKernel];
    for part in 48..64 {
        assert_eq!(done(part, part), trials[(part as usize - 48).min(3)], "{part}");
    }
}

/// Where it begins in the middle of a cycle, too.
#[test]
fn first_of_all_the_kernels_way_is_measured_and_what_is_far_worse_is_tried_for_one_part() {
    for begins in 0..64 {
        let mut contest = Contest::new(Why::Preempted, false);
        let (mut passed, mut awake_quarters) = (0, 0);
        for quarter in begins..128 {
            let doing = contest.follow(9 * CYCLE_NS + (quarter << (PART_SHIFT - 2)), passed);
            if passed == 0 {
                assert_eq!(doing, Doing::ByKernel, "{begins}");
            }
            passed += if doing.is_awake() { 40 } else { 100 };
            awake_quarters += u64::from(doing.is_awake());
        }
        assert!((4..=12).contains(&awake_quarters), "{begins}: {awake_quarters}");
    }
}

#[test]
fn trial_that_goes_as_badly_as_before_is_broken_off() {
    let mut contest = Contest::new(Why::Preempted, false);
    let (mut passed, mut tried) = (0, [0; 2]);
    let quarters = 64 * 16;
    for quarter in 0..quarters {
        let doing = contest.follow(16 * CYCLE_NS + (quarter << (PART_SHIFT - 2)), passed);
        passed += if doing.is_awake() { 10 } else { 100 };
        if quarter >= 2 * 64 && doing.is_awake() {
            tried[doing as usize] += 1;
        }
    }
    // Each once in the ninth cycle, for a quarter of a part after the half that is not measured.
    assert_eq!(tried, [3; 2]);
}

/// A port is not woken for each of them.
#[test]
fn ways_that_need_the_ports_are_tried_in_the_same_cycles_while_the_kernels_is_best() {
    let mut contest = Contest::new(Why::Crowded, true);
    let (mut passed, mut cycles) = (0, [const { Vec::new() }; 3]);
    for quarter in 0..64 * 64 {
        let doing = contest.follow(64 * CYCLE_NS + (quarter << (PART_SHIFT - 2)), passed);
        let (rate, cycle) = match doing {
            Doing::Spins => (10, quarter / 64),
            Doing::GivesWay => (85, quarter / 64),
            Doing::Sleeps => (65, quarter / 64),
            Doing::ByKernel => (100, 0),
        };
        passed += rate;
        if cycle > 1 && cycles[doing as usize].last() != Some(&cycle) {
            cycles[doing as usize].push(cycle);
        }
    }
    assert_eq!(cycles, [const { [8, 32] }; 3]);
}

/// Its flows come back, and their port may have rested.
#[test]
fn trial_after_the_kernels_way_is_not_judged_by_what_it_passed_while_it_began() {
    let mut contest = Contest::new(Why::Preempted, false);
    let (mut passed, mut before, mut came) = (0, Doing::ByKernel, 0);
    let mut rates = [100, 100, 100, 100];
    for quarter in 0..64 * 16 {
        // Spinning is better from here on.
        rates[Doing::Spins as usize] = if quarter < 64 * 4 { 10 } else { 300 };
        let doing = contest.follow(16 * CYCLE_NS + (quarter << (PART_SHIFT - 2)), passed);
        came = if doing == before { came + 1 } else { 0 };
        before = doing;
        passed += if doing == Doing::Spins && came < 2 { 0 } else { rates[doing as usize] };
    }
    assert_eq!(before, Doing::Spins);
}

#[test]
fn thread_that_stands_still_through_its_first_trials_does_not_repeat_them_for_ever() {
    let mut contest = Contest::new(Why::Preempted, false);
    for cycle in 16..20 {
        contest.follow(cycle * CYCLE_NS + 15 * (1 << PART_SHIFT), 0);
    }
    contest.follow(20 * CYCLE_NS, 0);
    assert_eq!(contest.follow(20 * CYCLE_NS + (4 << PART_SHIFT), 0), Doing::ByKernel);
}

/// A thread with eight connections that nobody disturbs. Costs: spinning, giving way, sleeping, by the kernel.
fn with_connections() -> Thread {
    let mut thread = Thread::new();
    thread.met.connections = 8;
    thread
}

#[test]
fn connections_of_which_the_kernel_passes_more_are_left_to_it() {
    let mut thread = with_connections();
    let costs_ns = [5_000, 5_000, 30_000, 4_000];
    assert_eq!(thread.wait_for(1000 * MS, costs_ns, |_, _| ()), Doing::ByKernel);
    assert_eq!(thread.auto.now(), (Doing::ByKernel, Why::Several));
    let mut by_kernel_ns = 0;
    for _ in 0..30_000 {
        thread.wait_for(MS, costs_ns, |_, doing| by_kernel_ns += u64::from(doing == Doing::ByKernel) * costs_ns[3]);
    }
    assert!(by_kernel_ns > 29_000 * MS, "{by_kernel_ns}");
}

#[test]
fn connections_of_which_the_kernel_passes_as_many_stay() {
    let mut thread = with_connections();
    let mut by_kernel_ns = 0;
    for costs_ns in [[4_000, 4_000, 30_000, 5_000], [20_000; 4]] {
        for _ in 0..30_000 {
            thread.wait_for(MS, costs_ns, |_, doing| by_kernel_ns += u64::from(doing == Doing::ByKernel) * costs_ns[3]);
        }
    }
    assert!(by_kernel_ns > 0 && by_kernel_ns < 600 * MS, "one in a hundred at most: {by_kernel_ns}");
}

#[test]
fn connections_that_pass_few_messages_and_single_ones_are_never_tried() {
    for (connections, cost_ns) in [(8, 100_000), (1, 5_000)] {
        let mut thread = with_connections();
        thread.met.connections = connections;
        for _ in 0..10_000 {
            thread.wait_for(MS, [cost_ns, cost_ns, cost_ns, 1_000], |_, doing| assert_eq!(doing, Doing::Spins));
        }
    }
}
