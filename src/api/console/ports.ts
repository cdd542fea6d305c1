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

/** The configuration that visitors are checked against. A reload replaces it. */
export interface ConsoleAccess extends PipelineAccess, UploadAccess, NotifierAccess {
  /** If null, only tokens can log in. */
  login: ConsoleLogin | null;
}

/** The console's dependencies. The API already has all of them. */
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
  /** Reads destination catalogs off the event loop. Throws the same errors as `PublishingThreads.inspect`. */
  inspect: (request: InspectionRequest, signal: AbortSignal) => Promise<InspectionAnswer>;
  /** Returns the newest log lines of a run that this process has published. */
  runLines: (runId: string) => readonly RunLine[];
}

/** The dependencies of console handlers, including those that only the console has. */
export interface ConsoleParts extends ConsolePorts {
  site: Site;
  sessions: Sessions;
  loginLimit: LoginLimit;
  /** Keeps pending issuer logins in the browser. */
  attempts: SealedCookie<LoginAttempt>;
}

/** The console's settings; null in `ApiPorts` if the console is off. */
export interface ConsoleSettings {
  sessionMs: number;
  /** The secret that seals sessions. */
  sessionKey: string | Uint8Array;
}
