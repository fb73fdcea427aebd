/**
 * The models of the built-in demo: `daybook-demo` replies, `daybook-demo-fail` replies 500,
 * `daybook-demo-cut` closes the connection mid-reply.
 */
export const DEMO_MODELS = ['daybook-demo', 'daybook-demo-fail', 'daybook-demo-cut'];
