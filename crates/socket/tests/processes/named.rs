//! Sequences that failed once, as short as they did, by what was wrong. Each has the seed of all that its steps leave open.

use crate::step::Kind::{self, *};
use crate::step::Step;

/// A step: what, which program, which socket, what else, and the time before it, ns.
type Row = (Kind, u64, u64, u64, u64);

pub struct Named {
    pub name: &'static str,
    pub seed: u64,
    rows: &'static [Row],
}

impl Named {
    pub fn steps(&self) -> Vec<Step> {
        let step = |&(kind, program, socket, more, gap_ns): &Row| Step { kind, program, socket, more, gap_ns };
        self.rows.iter().map(step).collect()
    }
}

pub const ALL: [Named; 28] = [
    Named {
        name: "parent_that_executed_keeps_no_child_waiting",
        seed: 525,
        rows: &[
            (Receive, 413176, 893511, 648941, 1895),
            (Fork, 711540, 4674, 488182, 139),
            (Wait, 547917, 397307, 809566, 3119),
            (Exec, 160368, 392153, 984753, 118),
        ],
    },
    Named {
        name: "what_waits_with_a_child_is_for_a_parent_that_executed",
        seed: 515,
        rows: &[
            (Fork, 727698, 113544, 123782, 3974),
            (Fork, 989088, 956693, 516292, 1700),
            (Receive, 470238, 1003881, 833437, 2386),
            (Arrive, 363974, 246963, 716055, 166),
            (Exec, 325356, 817483, 875883, 1044),
        ],
    },
    Named {
        name: "word_of_the_agent_that_another_engine_read_is_heard",
        seed: 1538,
        rows: &[
            (Wait, 728707, 480712, 807255, 1446),
            (Open, 610549, 86814, 415626, 2747),
            (Fork, 938341, 435107, 839247, 1190),
            (Receive, 1026229, 753842, 50290, 1665),
            (Arrive, 300090, 474043, 561802, 4384),
        ],
    },
    Named {
        name: "word_of_the_agent_is_heard_for_a_thread_that_computes",
        seed: 2335,
        rows: &[
            (Open, 174981, 366461, 592230, 3744),
            (Wait, 758967, 494972, 923910, 1670),
            (Arrive, 974468, 20489, 734438, 56),
            (Open, 914667, 586694, 521435, 2829),
            (Kill, 304038, 57575, 268436, 284),
            (Fork, 854642, 99114, 273065, 4676),
            (Fork, 347343, 818947, 418769, 1569),
            (Fork, 1028810, 735047, 674930, 2937),
            (Arrive, 917864, 121770, 1044670, 2703),
            (Arrive, 206143, 412509, 103574, 4231),
            (Arrive, 541472, 912622, 95256, 756),
            (Arrive, 834236, 668066, 516266, 486),
            (Receive, 997696, 731552, 240385, 1502),
        ],
    },
    Named {
        name: "option_that_only_the_kernel_has_leaves_a_socket_to_it_in_all_processes",
        seed: 1837,
        rows: &[
            (Open, 891746, 702647, 496976, 735),
            (Fork, 630822, 574079, 779099, 1817),
            (Kill, 833104, 53452, 990166, 4246),
            (Arrive, 970842, 769809, 690001, 2041),
            (KeepWithKernel, 798511, 600341, 156751, 2476),
        ],
    },
    Named {
        name: "what_waits_is_for_the_process_that_leaves_a_socket_to_the_kernel",
        seed: 2184,
        rows: &[
            (Fork, 924206, 817206, 105216, 870),
            (Receive, 84327, 391393, 167624, 181),
            (Fork, 5491, 443296, 467583, 282),
            (Arrive, 331785, 931137, 682634, 963),
            (Fork, 816714, 734893, 1010719, 2107),
            (KeepWithKernel, 401142, 983434, 1002998, 1152),
        ],
    },
    Named {
        name: "connection_that_a_child_makes_is_followed_by_its_parent",
        seed: 2511,
        rows: &[
            (Receive, 9668, 942045, 539695, 4425),
            (Arrive, 398230, 529384, 911649, 2497),
            (Fork, 819408, 867368, 313865, 3765),
            (Connect, 693852, 290629, 106120, 202),
            (Wait, 576410, 299783, 231102, 4538),
            (Fork, 999468, 99208, 360424, 1204),
            (Arrive, 732203, 76220, 894264, 1994),
            (Connect, 126947, 287916, 978877, 1958),
        ],
    },
    Named {
        name: "what_waits_as_the_agent_ends_is_for_all_who_have_the_socket",
        seed: 1918,
        rows: &[
            (Fork, 646319, 215022, 391387, 1402),
            (Fork, 436197, 712635, 292085, 3793),
            (Wait, 521596, 1753, 1000071, 3727),
            (Arrive, 513108, 613411, 744959, 1163),
            (AgentEnds, 734282, 762317, 882149, 3061),
        ],
    },
    Named {
        name: "frames_in_the_ring_of_a_second_engine_outlast_the_agent",
        seed: 2147,
        rows: &[
            (Arrive, 980160, 549653, 478117, 4987),
            (Send, 591822, 745693, 540586, 1318),
            (Receive, 698546, 768792, 176771, 4322),
            (AgentEnds, 117440, 743088, 940458, 2661),
            (Open, 986492, 892942, 133127, 4993),
        ],
    },
    Named {
        name: "what_waits_as_a_link_goes_is_for_all_who_have_the_socket",
        seed: 528,
        rows: &[
            (Fork, 484392, 896733, 414606, 3534),
            (Fork, 634184, 629659, 174453, 1692),
            (Receive, 394098, 1009300, 36061, 1174),
            (Arrive, 185190, 591050, 487081, 1715),
            (LinkChanges, 86516, 434145, 92028, 3433),
            (Timers, 905274, 800157, 94528, 2327),
        ],
    },
    Named {
        name: "what_the_kernel_has_is_not_kept_from_others_as_a_link_comes_back",
        seed: 126,
        rows: &[
            (Start, 25136, 279954, 205966, 2938),
            (Arrive, 126588, 407692, 481121, 4466),
            (Fork, 1027548, 64710, 460095, 384),
            (Send, 32711, 165622, 384769, 2397),
            (Open, 208927, 338007, 710386, 1627),
            (LinkChanges, 479922, 715335, 565762, 4400),
            (Receive, 388904, 959890, 912834, 1211),
        ],
    },
    Named {
        name: "what_waits_behind_the_kernels_datagrams_is_for_a_child",
        seed: 2380,
        rows: &[
            (Arrive, 639733, 408027, 422531, 986),
            (Send, 124138, 84572, 392237, 2664),
            (Lend, 446070, 525279, 27663, 3735),
            (Arrive, 382043, 185804, 399098, 967),
            (Fork, 884066, 231430, 87349, 1639),
        ],
    },
    Named {
        name: "socket_without_a_port_keeps_nothing_from_others",
        seed: 2554,
        rows: &[
            (Fork, 997508, 612801, 99259, 4344),
            (Arrive, 732823, 528445, 907193, 3125),
            (AgentEnds, 589178, 796340, 127417, 3452),
            (Send, 723360, 39185, 145487, 3199),
        ],
    },
    Named {
        name: "what_the_peer_sent_goes_past_what_came_before_the_socket_was_connected",
        seed: 20772,
        rows: &[
            (Close, 317318, 887092, 972585, 86),
            (Fork, 268668, 235217, 394752, 2669),
            (Wait, 555015, 934005, 184814, 50),
            (Open, 25698, 283234, 98264, 1892),
            (Arrive, 265554, 459294, 30792, 2054),
            (Start, 663609, 585008, 65727, 3827),
            (Connect, 1034576, 632570, 541664, 1452),
            (Arrive, 110792, 311882, 550828, 1521),
            (Fork, 377264, 478646, 96038, 2300),
        ],
    },
    Named {
        name: "peer_is_read_from_the_shadow_behind_what_others_sent_before",
        seed: 25663,
        rows: &[
            (Arrive, 523933, 9554, 286383, 2432),
            (Connect, 839980, 153606, 932091, 4984),
            (Arrive, 877777, 423868, 147829, 819),
            (Send, 754518, 145010, 852582, 2166),
            (Fork, 350606, 21754, 352893, 2888),
            (Fork, 175046, 644192, 929615, 4851),
        ],
    },
    Named {
        name: "agent_found_gone_by_an_answer_to_a_child_is_outlasted",
        seed: 21090,
        rows: &[
            (Receive, 945136, 217666, 397071, 799),
            (Fork, 223210, 125008, 50614, 148),
            (Wait, 518415, 215761, 177970, 2673),
            (AgentEnds, 776061, 511211, 664587, 4459),
            (Receive, 62306, 325761, 313987, 3378),
            (Arrive, 180013, 56408, 163675, 1005),
        ],
    },
    Named {
        name: "connection_that_a_child_makes_ends_the_flow_of_its_parent",
        seed: 31611,
        rows: &[
            (Fork, 900392, 914489, 141637, 2977),
            (Fork, 618906, 276730, 993762, 4759),
            (Receive, 991296, 781253, 56119, 2197),
            (Connect, 270375, 943153, 199921, 518),
            (Fork, 250999, 167113, 665179, 2882),
            (Arrive, 835824, 572067, 948398, 2207),
            (Connect, 91829, 149128, 2838, 2265),
        ],
    },
    Named {
        name: "socket_that_a_child_cannot_serve_is_the_kernels_in_its_parent",
        seed: 32485,
        rows: &[
            (Open, 9777, 415477, 553908, 1579),
            (Wait, 873653, 661531, 406294, 2665),
            (Fork, 621931, 35225, 982304, 4753),
            (LinkChanges, 89921, 228973, 992544, 218),
            (Send, 536285, 529429, 631039, 2570),
            (Send, 150682, 559927, 147491, 4424),
            (LinkChanges, 932605, 39203, 222087, 1305),
            (Fork, 101305, 488331, 463197, 4040),
            (Wait, 326721, 442216, 279345, 566),
            (Arrive, 549962, 17687, 293104, 3010),
            (Fork, 991439, 733559, 215642, 1671),
        ],
    },
    Named {
        name: "socket_of_an_executed_program_is_the_kernels_in_its_children",
        seed: 33721,
        rows: &[
            (Kill, 492633, 815378, 546554, 1118),
            (Fork, 727585, 585117, 817036, 189),
            (Fork, 882673, 835221, 748842, 1733),
            (Exit, 891273, 896557, 182781, 2663),
            (Exec, 802716, 305120, 337363, 3636),
            (Arrive, 500604, 221879, 625638, 1993),
            (Wait, 475193, 508769, 762474, 1785),
            (Arrive, 1018404, 35101, 514455, 2088),
        ],
    },
    Named {
        name: "socket_closed_after_the_agents_end_is_its_childs_until_the_last_frame",
        seed: 101389,
        rows: &[
            (Fork, 28936, 819003, 349747, 3211),
            (Wait, 777927, 388335, 456701, 2944),
            (Timers, 1045155, 50985, 326458, 1503),
            (AgentEnds, 151469, 467755, 409817, 2593),
            (Close, 34005, 196910, 751485, 295),
            (Arrive, 670866, 738969, 608925, 4391),
        ],
    },
    Named {
        name: "socket_left_to_the_kernel_after_the_agents_end_has_what_still_comes",
        seed: 101617,
        rows: &[
            (Receive, 485956, 297182, 623715, 656),
            (Arrive, 551855, 701162, 318992, 3907),
            (Fork, 62149, 705588, 218616, 1515),
            (Arrive, 371964, 202338, 756684, 3455),
            (AgentEnds, 760703, 88267, 446438, 887),
            (Arrive, 761359, 585699, 293213, 2392),
            (Connect, 581673, 647856, 725822, 1563),
            (Arrive, 422770, 817900, 444980, 3769),
            (Arrive, 822105, 654471, 563174, 2458),
            (Arrive, 862671, 236627, 833452, 1325),
            (KeepWithKernel, 789153, 1038775, 797246, 606),
        ],
    },
    Named {
        name: "socket_that_two_programs_read_by_the_kernel_is_not_a_childs_of_one",
        seed: 109010,
        rows: &[
            (Fork, 675152, 209799, 224221, 150),
            (Receive, 461075, 51123, 771438, 947),
            (Send, 326133, 8412, 997845, 3239),
            (Fork, 1026269, 814679, 485366, 4810),
            (Exit, 1013294, 635322, 727482, 2602),
            (Receive, 312725, 675967, 122263, 2221),
            (Arrive, 441920, 955684, 791263, 1977),
        ],
    },
    Named {
        name: "socket_shared_before_is_shared_after_a_child_connects_it",
        seed: 110935,
        rows: &[
            (Fork, 508172, 669182, 821317, 2709),
            (Receive, 723395, 286607, 176637, 20),
            (Receive, 977829, 1048447, 933497, 4411),
            (Arrive, 77739, 838265, 867884, 2168),
            (Timers, 364404, 707201, 486019, 1548),
            (Fork, 42980, 489322, 25822, 272),
            (Connect, 323395, 954796, 72216, 748),
        ],
    },
    Named {
        name: "port_that_came_back_is_answered_for_to_children",
        seed: 112749,
        rows: &[
            (Receive, 319324, 457638, 937417, 1258),
            (Arrive, 593449, 252488, 636583, 4034),
            (LinkChanges, 870388, 944032, 22272, 375),
            (Receive, 796926, 856359, 572922, 4400),
            (Fork, 186522, 615286, 976185, 1836),
            (Arrive, 620321, 968967, 74831, 64),
            (LinkChanges, 674792, 141732, 484239, 2377),
            (Arrive, 614217, 441950, 572402, 3690),
            (Look, 629910, 3733, 91481, 1381),
        ],
    },
    Named {
        name: "what_comes_as_the_agents_program_goes_is_taken_before_an_execution",
        seed: 124205,
        rows: &[
            (Receive, 278912, 651636, 446925, 1375),
            (AgentEnds, 412427, 488256, 416809, 744),
            (Arrive, 714102, 856735, 290123, 4912),
            (Exec, 904404, 552921, 537283, 1867),
        ],
    },
    Named {
        name: "socket_connected_with_children_takes_what_its_peer_sends_alone",
        seed: 137537,
        rows: &[
            (Fork, 201530, 960712, 668681, 4267),
            (Wait, 109614, 912638, 768507, 3976),
            (Arrive, 551718, 349306, 369426, 3116),
            (AgentEnds, 996249, 471068, 759961, 2024),
            (Arrive, 428995, 613985, 93139, 890),
            (Connect, 876081, 1006485, 811398, 4737),
            (Receive, 18651, 607927, 1040852, 2105),
        ],
    },
    Named {
        name: "last_user_of_a_shared_socket_has_it_until_it_hears_that_it_is_alone",
        seed: 707734,
        rows: &[
            (Start, 754736, 56926, 875054, 4502),
            (Fork, 978093, 521942, 588468, 2456),
            (Receive, 252268, 639226, 900738, 2940),
            (Fork, 920579, 581865, 334345, 2150),
            (Exit, 156626, 958179, 119112, 1624),
            (Receive, 321211, 166520, 411488, 4409),
            (Kill, 777455, 1004982, 161070, 1840),
            (AgentHears, 1026778, 384378, 518443, 393),
            (Receive, 308873, 675982, 167284, 1143),
            (Arrive, 895096, 423739, 232169, 3389),
            (Fork, 443412, 1802, 736930, 3824),
        ],
    },
    Named {
        name: "what_came_before_a_child_connected_the_socket_is_not_its_peers",
        seed: 735802,
        rows: &[
            (Connect, 240918, 517139, 239132, 3874),
            (Fork, 951106, 154426, 749042, 710),
            (Receive, 127314, 942643, 757831, 4706),
            (Arrive, 660672, 888631, 931179, 609),
            (Connect, 36194, 941517, 789822, 4646),
        ],
    },
];
