/** The period of back-tests on the dashboard: so many days until now. Apart from schemas, for the page. */
export const BACKTEST_DAYS = 30;
