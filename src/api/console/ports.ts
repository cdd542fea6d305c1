import type { Current } from '../../core/lib/current.ts';
import type { RunResult } from '../../core/publish/results/result.ts';
import type { RunLine } from '../../workers/coordinator/run-lines.ts';
import type { EndedSessions } from '../../workers/queue/ended-sessions.ts';
import type { PublishJob } from '../../workers/queue/job.ts';
import type { InspectionAnswer, InspectionRequest } from '../../workers/threads/inspection-request.ts';
import type { HealthPorts } from '../daemon/health-routes.ts';
import type { ReloadPorts } from '../daemon/reload-route.ts';
import type { NotifierAccess, UndeliveredPorts } from '../daemon/undelivered-routes.ts';
import type { LoginLimit } from '../http/login-limit.ts';
import type { Site } from '../pages/site.ts';
import type { PipelineAccess, PipelinePorts } from '../pipelines/pipelines-route.ts';
import type { ReleasesPorts } from '../pipelines/releases-routes.ts';
import type { LivePorts } from '../runs/follow-routes.ts';
import type { UploadAccess, UploadPorts } from '../uploads/ports.ts';
import type { LoginAttempt, LoginPorts } from './openid-login.ts';
import type { ConsoleLogin } from './people.ts';
import type { SealedCookie } from './sealed-cookie.ts';
import type { Sessions } from './sessions.ts';

/** The parts of the configuration that decide what a visitor may do. Replaced on reload. */
export interface ConsoleAccess extends PipelineAccess, UploadAccess, NotifierAccess {
  /** null if people can only log in with a token. */
  login: ConsoleLogin | null;
  /** Where the destinations of each pipeline are, such as `/srv/www` or `s3://bucket/www`. No secrets. */
  places: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

/** The parts of the API that the console depends on. */
export interface ConsolePorts
  extends LivePorts, PipelinePorts, ReleasesPorts, ReloadPorts, UndeliveredPorts, UploadPorts {
  http: UploadPorts['http'];
  log: LivePorts['log'];
  clock: LivePorts['clock'];
  configured: Current<ConsoleAccess>;
  queue: LivePorts['queue'];
  readiness: HealthPorts['readiness'];
  draining: AbortSignal;
  stopping: AbortSignal;
  plan: (job: PublishJob, signal: AbortSignal) => Promise<RunResult>;
  endedSessions: Pick<EndedSessions, 'add' | 'among'>;
  issuerKeys: LoginPorts['issuerKeys'];
  /** Reads destination catalogs on another thread. Throws the same errors as `PublishingThreads.inspect`. */
  inspect: (request: InspectionRequest, signal: AbortSignal) => Promise<InspectionAnswer>;
  /** Returns the newest log lines of a run that this process has published. */
  runLines: (runId: string) => readonly RunLine[];
}

/** Everything the console's handlers need, including objects that the console creates for itself. */
export interface ConsoleParts extends ConsolePorts {
  site: Site;
  sessions: Sessions;
  loginLimit: LoginLimit;
  /** Stores pending issuer logins in the browser. */
  attempts: SealedCookie<LoginAttempt>;
}

/** The console's settings. They are null in `ApiPorts` if the console is disabled. */
export interface ConsoleSettings {
  sessionMs: number;
  /** The secret that session cookies are encrypted with. */
  sessionKey: string | Uint8Array;
}
