/**
 * Every fixed ceiling of the server, each with its reason. Limits that an operator or a plan sets
 * live elsewhere; these are the program's own.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

/** Node's default of 16 KiB refuses agents with long tracing headers; more only helps attackers. */
export const HEADER_BYTES_MAX = 32 * KIB;
/** A client that drips its headers is cut here. */
export const HEADERS_TIMEOUT_MS = 10_000;
/** A whole request, body included. 32 MiB in two minutes is 2 Mbit/s. */
export const REQUEST_TIMEOUT_MS = 120_000;
/** How often Node looks for clients that exceed the two above; its default of 30 s is too coarse. */
export const CONNECTIONS_CHECK_MS = 1_000;
/** Longer than the idle time of common load balancers (60 s), so that they close first. */
export const KEEP_ALIVE_MS = 75_000;
/** Waiting connections beyond this are refused by the kernel. */
export const LISTEN_BACKLOG = 4096;

/** Deeper JSON has no use in a chat and costs stack in every parser behind us. */
export const JSON_DEPTH_MAX = 128;
/** What is read and thrown away of a refused request's body before its connection is cut. */
export const REFUSED_BODY_BYTES_MAX = 8 * MIB;

/** Bodies above this are received into recycled slabs: fresh buffers cost garbage collections. */
export const SLAB_FROM_BYTES = 64 * KIB;
/** A coding agent's turn with its history is well below this; larger bodies get a buffer of their own. */
export const SLAB_BYTES = MIB;
/** Slabs kept for reuse. */
export const SLABS_KEPT_MAX = 64;

/** What a token is taken for where no provider has counted: text and JSON alike. */
export const BYTES_PER_TOKEN = 4;
/** Token counts are stored in 32-bit columns; a provider that reports more is not believed. */
export const TOKENS_MAX = 2 ** 31 - 1;

/** A reply shorter than this is of no use to anybody: with less left a call is refused. */
export const COMPLETION_MINIMUM_TOKENS = 16;
/** A growing hold grows by at least this: smaller steps would only be more events. */
export const GROWTH_TOKENS_MIN = 256;
/** What is taken for the number of concurrent requests where terms don't limit it. */
export const CONCURRENT_MAX = 10_000;
/** Calls that one process runs at the same time: some gigabytes at the idle stream's 60 KB and its bodies. */
export const RUNNING_MAX = 20_000;
/** Choices of one reply: a provider that takes more is not known. */
export const CHOICES_MAX = 128;
/** Refused calls alike are recorded together, once in so long. */
export const REFUSALS_COALESCE_MS = 1_000;
/** Kinds of refusals gathered before they are recorded early. */
export const REFUSALS_KINDS_MAX = 10_000;

/** Calls waiting for the store's word on a limit; more means that it is too slow to admit anything. */
export const WAITING_MAX = 10_000;
/** One exchange with the store: as much as it does in a few milliseconds, so that others get their turn. */
export const ASK_LINES_MAX = 200;
export const ASK_REQUESTS_MAX = 500;
/** A stock that lasts for some calls, and for two seconds of what is used: a crash strands no more. */
export const STOCK_NEEDS = 8;
export const STOCK_MS = 2_000;
/** How long a call waits for another instance to give back what it may hold beyond its needs. It
 * takes some milliseconds; an instance that does not answer in a second is not well. */
export const LOOSE_WAIT_MS = 1_000;
/** How long a call waits for what running calls hold, in case one of them has just ended: writing an
 * ending down takes some milliseconds, and a busy machine many times that. Longer would only keep
 * those waiting who are refused in the end. */
export const SETTLING_WAIT_MS = 250;
/** The pause before such calls are asked for again. */
export const LOOSE_PAUSE_MS = 5;
/** A limit that had nothing left is not asked for again within this: floods of refusals stay cheap. */
export const REFUSAL_MEMORY_MS = 20;
/** Leases of the next windows are taken this long before they begin. */
export const PREFETCH_MS = 3_000;
/** Leases of windows that ended are remembered so long: a clock that is set back finds its holds again. */
export const ENDED_KEPT_MINUTES = 2;
/** An account or key that nobody has called with for this long gives back its leases. */
export const IDLE_SUBJECT_MS = 60_000;
/**
 * How often what was spent is reported where nobody waits for it: so much of the log is read after a crash.
 */
export const REPORT_EVERY_MS = 10_000;

/** Events in one append: beyond this a batch no longer gets cheaper per event, only later. */
export const APPEND_BATCH_MAX = 1_000;
/** How long a batch may gather while more keeps arriving: well below what a commit takes under load. */
export const GATHER_MAX_MS = 2;
/** A settled event that nobody waits for may wait this long for company: fewer, larger commits. */
export const SETTLE_LINGER_MS = 2;
/** Accepted events waiting for the store; more means that it is too slow to admit anything. */
export const ACCEPT_QUEUE_MAX = 10_000;
/** Endings waiting for the store. Beyond it an ending is lost to this process and the request is
 * abandoned with its whole hold: an over-charge that is visible, never an under-charge. */
export const SETTLE_QUEUE_MAX = 100_000;
/** Pauses between attempts to reach the store again. */
export const RECONNECT_FIRST_MS = 50;
export const RECONNECT_MAX_MS = 1_000;

/** The read model is current when it has looked at the log within this time; keys that were
 * revoked since then could still pass, so beyond it nothing is admitted. */
export const READ_MODEL_STALE_MS = 5_000;
/** A process that did not run for longer than this may have been declared dead; see server/instance/fencing-guard.ts.
 * With the second between heartbeats, and as much again for a slow one, it is below what others wait. */
export const STALL_MAX_MS = 1_500;
/** Clocks of machines differ in their rate, and a write takes time after it was allowed. */
export const LIFE_MARGIN_MS = 500;

/** A non-streamed reply is held until it is complete, so that a cut upstream is a clean 502 and not
 * half a JSON document. Images come base64-coded in replies of some megabytes; more is refused. */
export const JSON_REPLY_BYTES_MAX = 32 * MIB;
/** An upstream's error body beyond this is not read. */
export const ERROR_REPLY_BYTES_MAX = 64 * KIB;
/** One SSE event beyond this is passed on in pieces. */
export const SSE_EVENT_BYTES_MAX = MIB;
/** Response headers of an upstream. */
export const UPSTREAM_HEADER_BYTES_MAX = 32 * KIB;
/** Idle connections to an upstream: below the 5 s after which common model servers close theirs,
 * since a request sent into a closing connection fails. */
export const UPSTREAM_KEEP_ALIVE_MS = 4_000;
/** How often running requests are compared with their deadlines. */
export const DEADLINE_TICK_MS = 50;
/** A comment keeps the connection of a client alive while the upstream is silent. */
export const KEEP_ALIVE_COMMENT_MS = 15_000;
/** A client that takes nothing for this long is cut. */
export const SLOW_READER_MS = 60_000;
/** An upstream that sends bytes but no data (comments only) is cut. */
export const PROGRESS_TIMEOUT_MS = 120_000;

/** How long running replies may take to end after SIGTERM. */
export const DRAIN_MS = 300_000;
/** What a server process does after that: the last endings, its leases, its connections. */
export const CHILD_STOP_MS = DRAIN_MS + 15_000;
/** A worker's jobs are short or can be done again. */
export const WORKER_STOP_MS = 10_000;
/** Pauses before a process that has ended is started again; one that lived for this long was fit. */
export const CHILD_RESTART_FIRST_MS = 100;
export const CHILD_RESTART_MAX_MS = 10_000;
export const CHILD_STABLE_MS = 3_000;
/** Processes on one port: far more than one machine's cores make use of, and their connections fit
 * into what the embedded PostgreSQL allows. */
export const INSTANCES_MAX = 64;
/** How long a list of an upstream's models is used before it is asked again. */
export const MODEL_LIST_MS = 60_000;
export const MODEL_LIST_TIMEOUT_MS = 3_000;
/** Models taken from one upstream's list. */
export const MODEL_LIST_MAX = 2_000;

/** Connections of a process that read figures for people and programs: enough for a page's widgets,
 * and few enough that Postgres stays with the calls. */
export const READ_CONNECTIONS_MAX = 4;
/** Readers waiting for one of them: as many as are served before the first of them loses patience. */
export const READS_WAITING_MAX = 64;
/**
 * Reads of one key, or of one person who is signed in, at the same time: a page of widgets, and nobody takes
 * all the places for long.
 */
export const READS_PER_KEY_MAX = 8;

/** The time that a list shows where none is asked for. */
export const LIST_WINDOW_MS = 24 * 3_600_000;
/** Requests that one page of a list looks at when few of them fit its filter: a few dozen milliseconds. */
export const LIST_LOOK_MAX = 10_000;
/** How far apart the first and the last event of a request may be for all between them to be looked
 * at: some seconds of a busy log, and some milliseconds of reading. */
export const STORY_LOOK_MAX = 20_000;
/** Events of one request that its story tells: a hold grows by steps that become larger. */
export const STORY_EVENTS_MAX = 1_000;
/**
 * Rows of an export, the requests that are looked at for it, and those in each step of both. Who wants more
 * asks for the next part.
 */
export const EXPORT_ROWS_MAX = 100_000;
export const EXPORT_STEPS_MAX = 200;
export const EXPORT_STEP_ROWS = 1_000;
/**
 * Positions of the log that one step looks at for events that fit a filter: some ten milliseconds, and some
 * hundred for the steps of a page.
 */
export const EVENTS_STEP_POSITIONS = 20_000;
export const EVENTS_STEPS_MAX = 8;
/** Control events that one step looks at. */
export const EVENTS_CONTROL_LOOK_MAX = 5_000;
/** Requests of an account or key whose endings tell which part of the log has none of it. */
export const EVENTS_SKIP_ROWS_MAX = 2_000;
/**
 * Events of an export, and the steps in which the log is looked through for it. Who wants more asks for the
 * next part.
 */
export const EVENTS_EXPORT_MAX = 100_000;
export const EVENTS_EXPORT_STEPS_MAX = 500;
/** Rows of a usage report: more than people read. What is left out is in the totals. */
export const USAGE_ROWS_MAX = 2_000;
/** Buckets of such a report: two days in minutes, three months in hours, seven years in days. */
export const USAGE_BUCKETS_MAX = 2_880;
/** How far back there are minutes: the worker's retention takes older ones away. */
export const USAGE_MINUTES_KEPT_MS = 48 * 3_600_000;

/** Names of models for which the price was looked up and is remembered. */
export const PRICES_FOUND_MAX = 10_000;
/** Prices in one append: a page of the log, and a lock on it that nobody notices. */
export const PRICES_APPEND_MAX = 500;

/** Reply lengths that are remembered, half of them for pairs of key and model, half for models; those
 * heard of least lately go first. About a megabyte. */
export const REPLY_LENGTHS_MAX = 10_000;
/** What a reply is taken for before any was seen: two thirds of chat replies are shorter. */
export const REPLY_FIRST_TOKENS = 512;
/** No estimate is below this: a sentence, and the tool call that has no text at all. */
export const REPLY_LEAST_TOKENS = 16;

/** What a provider may put around a prompt by itself: some tokens for each message, which are fewer
 * than the bytes of its JSON, and a short preamble such as today's date. */
export const TEMPLATE_TOKENS_MAX = 100;
/** Its instructions where there are tools: the longest known have about 800 tokens. */
export const TOOLS_TEMPLATE_TOKENS_MAX = 1_500;
/** The dearest image known: gpt-4o-mini counts 2,833 tokens and 5,667 for each of at most 8 tiles. */
export const IMAGE_TOKENS_MAX = 50_000;
/** An audio part whose bytes are in the body has far fewer tokens than those; this is for one told
 * by its id or address: an hour at Gemini's 32 tokens a second. */
export const AUDIO_TOKENS_MAX = 115_200;
/** A file or video may be as long as a model can read, and all parts of a prompt together: the
 * longest context known is Llama 4 Scout's. */
export const CONTEXT_TOKENS_MAX = 10_485_760;
/** What an image is taken for where no bound is needed: a screenshot at full detail. */
export const IMAGE_TOKENS = 1_600;

/** Viewers of the live feed on one process: each costs some 20 KB, and a socket. */
export const VIEWERS_MAX = 5_000;
/** A key is in as many windows and programs as somebody may have open, and not in more. */
export const VIEWERS_PER_KEY_MAX = 100;
/** Viewers say nothing but pongs, which are at most 125 bytes. */
export const VIEWER_MESSAGE_BYTES_MAX = KIB;
/** Sessions that were closed lately are remembered: more than can end while somebody's feed is opened. */
export const CLOSED_SESSIONS_MAX = 1_000;
/** How often the session behind an open feed is looked at: it may have expired, which no event tells. */
export const SESSION_CHECK_MS = 30_000;
/**
 * What waits for a viewer that reads slowly: some seconds of a busy account. Beyond it frames are left out.
 */
export const VIEWER_BUFFER_BYTES_MAX = 256 * KIB;
/** A viewer whose connection has taken nothing for this long is given up. */
export const VIEWER_STUCK_MS = 30_000;
/** How long a viewer may take to answer the end of its connection. */
export const VIEWER_CLOSE_MS = 1_000;
/** How often viewers are looked after: keys that have expired, connections that read again. */
export const VIEWERS_CHECK_MS = 500;
/** Something is said to each viewer at least this often, so that it knows silence from a lost connection. */
export const LIVE_HEARTBEAT_MS = 5_000;
/** A viewer that did not answer the last ping by the next one is gone. */
export const LIVE_PING_MS = 15_000;
/**
 * After each page of the log the feed waits: a busy log is read in fewer pages, each one message to a viewer.
 */
export const FEED_PAUSE_MS = 10;
/** With many viewers it waits as many times longer than it took to tell them, so that it leaves the process to its
 * calls, up to this: what people still see as at once. */
export const FEED_PAUSE_SHARE = 6;
export const FEED_PAUSE_MAX_MS = 100;
/**
 * How far back a viewer may resume: half a minute of a busy log, which Postgres walks over in some tens of
 * milliseconds.
 */
export const RESUME_POSITIONS_MAX = 50_000;
/** Events that a viewer is sent when it resumes; whoever missed more fetches the figures anew. */
export const RESUME_EVENTS_MAX = 5_000;
/** Events read at once for it: a few hundred kilobytes. */
export const RESUME_PAGE_EVENTS = 500;
/** Questions of the feed that wait for the store; more viewers that resume at once fetch anew. */
export const FEED_QUERIES_MAX = 200;
/** The feed's own connection is closed when nobody has needed it for this long. */
export const FEED_IDLE_MS = 15_000;
/** How far running replies are is told this often: four times a second. */
export const PROGRESS_EVERY_MS = 250;
/** Calls told of each time: some 100 KB in notifications. Where more run, they take turns. */
export const PROGRESS_CALLS_MAX = 1_000;
/**
 * Processes tell one another what their viewers watch; what was not told again for this long is watched no
 * more.
 */
export const WATCH_EVERY_MS = 5_000;
export const WATCH_EXPIRES_MS = 12_000;
/** Accounts that others watch. Those beyond are not told how far calls are, until they settle. */
export const WATCHED_MAX = 20_000;
/** Changed quotas are read this often at most, and so many at once. */
export const QUOTAS_EVERY_MS = 250;
export const QUOTAS_READ_MAX = 1_000;

/** Secrets of keys in rotation that are noted at once, about a megabyte. */
export const SECRETS_NOTED_MAX = 10_000;
/** How often a secret's use is written down while it goes on, and how soon the first one is. */
export const SECRET_USE_REPORT_MS = 60_000;
export const SECRET_USE_LOOK_MS = 1_000;

/** Keys, or accounts, of one list: more than people read. Whoever looks for another searches. */
export const KEYS_LISTED_MAX = 1_000;
export const ACCOUNTS_LISTED_MAX = 1_000;
/**
 * Keys of an account that are good at once, and all that it ever has: each is in the memory of every server.
 */
export const KEYS_GOOD_MAX = 1_000;
export const KEYS_EVER_MAX = 10_000;
/** Limits of one list, those that the store is asked for at once beside what calls need, and for how long. */
export const LIMITS_LISTED_MAX = 500;
export const LIMITS_ASKED_MAX = 100;
export const FIGURES_WAIT_MS = 3_000;
/** Alerts and deliveries of one list, and the alerts that are looked at for those of one account. */
export const ALERTS_LISTED_MAX = 100;
export const ALERTS_LOOK_MAX = 10_000;
export const DELIVERIES_LISTED_MAX = 50;
/** Attempts of one delivery that are shown: the worker makes fewer. */
export const ATTEMPTS_SHOWN_MAX = 50;
/** Changes by people that wait for one another: each takes some milliseconds. */
export const CONTROL_WAITING_MAX = 100;
/** Those of one person among them: nobody keeps all others waiting. */
export const CONTROL_WAITING_PER_MEMBER_MAX = 20;
/**
 * Changes that one person makes in an hour, on one process: one in six seconds, and each stays in the log for
 * ever.
 */
export const CHANGES_PER_HOUR_MAX = 600;
/** How long a change waits for those before it: a person's patience, and two time-outs of the store. */
export const CONTROL_WAIT_MS = 5_000;
/** The connection for changes is left when nobody has made one for this long. */
export const CONTROL_IDLE_MS = 60_000;
/** A body of the dashboard's own API: the longest are a plan's terms. */
export const DASHBOARD_BODY_BYTES_MAX = 64 * KIB;

/** How long the build of the page may take at the start: some seconds on a slow machine. */
export const PAGE_BUILD_MS = 60_000;
