// Crawlee as a peer: `crawl.mjs ROOTS CONNECTIONS` crawls the hosts of all roots with Cheerio and discards the pages.
import { readFileSync } from 'node:fs';
import { CheerioCrawler, Configuration, LogLevel, log } from '@crawlee/cheerio';

log.setLevel(LogLevel.ERROR);
const roots = readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean);
const connections = Number(process.argv[3]);
const configuration = new Configuration({ persistStorage: false, purgeOnStart: false, systemInfoIntervalMillis: 60_000 });
const crawler = new CheerioCrawler({
    minConcurrency: connections,
    maxConcurrency: connections,
    maxRequestRetries: 0,
    useSessionPool: false,
    persistCookiesPerSession: false,
    autoscaledPoolOptions: { systemStatusOptions: { maxCpuOverloadedRatio: 1, maxMemoryOverloadedRatio: 1, maxEventLoopOverloadedRatio: 1 } },
    async requestHandler({ enqueueLinks }) {
        await enqueueLinks({ strategy: 'same-hostname', selector: 'a[href]' });
    },
}, configuration);
await crawler.run(roots);
