create schema weather;
set search_path = weather;

create table stations (
  station_id    text primary key check (station_id = upper(station_id)),
  name          text not null,
  latitude_deg  double precision not null check (latitude_deg between -90 and 90),
  longitude_deg double precision not null check (longitude_deg between -180 and 180),
  elevation_m   double precision,
  time_zone     text not null,                      -- IANA name
  state         text check (state ~ '^[A-Z]{2}$')   -- or territory
);
create table offices (
  office        text primary key check (office ~ '^[A-Z]{3}$'),
  name          text,
  latitude_deg  double precision not null check (latitude_deg between -90 and 90),
  longitude_deg double precision not null check (longitude_deg between -180 and 180),
  time_zone     text,
  state         text check (state ~ '^[A-Z]{2}$')
);
create table locations (                            -- grid cells of forecasts
  location_id   text primary key,                   -- 'OKX/33,35'
  name          text,
  latitude_deg  double precision not null check (latitude_deg between -90 and 90),    -- of its center
  longitude_deg double precision not null check (longitude_deg between -180 and 180),
  time_zone     text,
  state         text check (state ~ '^[A-Z]{2}$')
);
create table zones (                                -- outlines of public, marine and offshore zones, and counties
  ugc           text primary key check (ugc ~ '^[A-Z]{2}[CZ][0-9]{3}$'),
  name          text,
  geometry      jsonb not null                      -- GeoJSON Polygon or MultiPolygon
);
create table fire_zones (                           -- public zones elsewhere have the same codes
  ugc           text primary key check (ugc ~ '^[A-Z]{2}Z[0-9]{3}$'),
  name          text,
  geometry      jsonb not null
);

create table observations (
  station_id             text not null references stations,
  observed_at            timestamptz not null,
  received_at            timestamptz not null default now(),
  text_description       text,
  raw_message            text,                      -- METAR, '' stored as null
  temperature_c          double precision,
  dewpoint_c             double precision,
  relative_humidity_pct  double precision check (relative_humidity_pct between 0 and 110),
  wind_direction_deg     double precision check (wind_direction_deg between 0 and 360),
  wind_speed_kmh         double precision check (wind_speed_kmh >= 0),
  wind_gust_kmh          double precision check (wind_gust_kmh >= 0),
  altimeter_pa           double precision,          -- upstream "barometricPressure"
  sea_level_pressure_pa  double precision,
  visibility_m           double precision,
  temperature_max_24h_c  double precision,
  temperature_min_24h_c  double precision,
  precipitation_1h_mm    double precision,
  precipitation_3h_mm    double precision,
  precipitation_6h_mm    double precision,
  heat_index_c           double precision,
  wind_chill_c           double precision,
  qc                     jsonb not null default '{}',  -- {"temperature_c":"V"}, MADIS letters
  primary key (station_id, observed_at)             -- latest of a station: backward scan
);
create index observations_latest on observations (observed_at desc, station_id);

create table observation_weather (
  station_id text, observed_at timestamptz, position smallint,
  intensity text check (intensity in ('light','heavy')),
  modifier text, phenomenon text not null, raw text not null,
  in_vicinity boolean not null default false,
  primary key (station_id, observed_at, position),
  foreign key (station_id, observed_at) references observations on delete cascade
);
create table observation_clouds (
  station_id text, observed_at timestamptz, position smallint,
  amount text not null check (amount in ('SKC','CLR','FEW','SCT','BKN','OVC','VV')),
  base_m double precision,                          -- null for CLR/SKC
  primary key (station_id, observed_at, position),
  foreign key (station_id, observed_at) references observations on delete cascade
);

create table alert_runs (                           -- one row per successful poll
  run_id     bigint generated always as identity primary key,
  fetched_at timestamptz not null,
  source_updated_at timestamptz
);
create index alert_runs_latest on alert_runs (fetched_at desc, run_id desc);

create table alerts (
  alert_id     text primary key,                    -- CAP identifier URN
  sent_at      timestamptz not null,
  effective_at timestamptz not null,
  onset_at     timestamptz,
  expires_at   timestamptz not null,                -- product expiry
  ends_at      timestamptz,                         -- event end, may be null
  status       text not null check (status in ('Actual','Exercise','System','Test','Draft')),
  message_type text not null check (message_type in ('Alert','Update','Cancel','Ack','Error')),
  category     text not null,
  severity     text not null check (severity in ('Extreme','Severe','Moderate','Minor','Unknown')),
  certainty    text not null check (certainty in ('Observed','Likely','Possible','Unlikely','Unknown')),
  urgency      text not null check (urgency in ('Immediate','Expected','Future','Past','Unknown')),
  event        text not null,
  event_code   text,                                -- NWS code, e.g. TOA
  vtec         text[] not null default '{}',
  office       text,                                -- 3-letter WFO
  sender_name  text,
  headline     text, description text, instruction text, response text,
  area_desc    text not null,
  language     text not null default 'en-US',
  parameters   jsonb not null default '{}',
  geometry     jsonb                                -- GeoJSON, WGS 84 lon/lat, null = use areas
);
create table alert_run_members (
  run_id   bigint references alert_runs on delete cascade,
  alert_id text references alerts,
  primary key (run_id, alert_id)
);
create table alert_areas (
  alert_id text references alerts on delete cascade,
  ugc      text not null check (ugc ~ '^[A-Z]{2}[CZ][0-9]{3}$'),
  same     text,                                    -- SAME codes, separated by spaces; an alert has the
                                                    -- codes of all its areas
  kind     text check (kind in ('public','county','fire','marine','offshore')), -- of zone; null: default of the product
  primary key (ugc, alert_id)
);
create index alert_areas_by_alert on alert_areas (alert_id);
create table alert_references (
  alert_id text references alerts on delete cascade,
  ref_id   text not null, ref_sender text, ref_sent_at timestamptz,
  primary key (alert_id, ref_id)
);
create index alert_references_back on alert_references (ref_id);

create table forecast_runs (
  run_id        bigint generated always as identity primary key,
  kind          text not null check (kind in ('hourly','narrative')),
  location_id   text not null,                      -- 'OKX/33,35'
  office        text not null, grid_x integer not null, grid_y integer not null,
  time_zone     text not null,                      -- IANA: periods cross DST
  generated_at  timestamptz not null,
  updated_at    timestamptz not null,
  valid_from    timestamptz not null, valid_until timestamptz not null,
  elevation_m   double precision,
  received_at   timestamptz not null default now(),
  unique (kind, location_id, generated_at)
);
create index forecast_runs_any on forecast_runs (kind, generated_at desc, run_id desc);
create table forecast_periods (
  run_id bigint references forecast_runs on delete cascade,
  number smallint not null check (number >= 1),
  starts_at timestamptz not null, ends_at timestamptz not null check (ends_at > starts_at),
  name text, is_daytime boolean not null,
  temperature_c double precision, temperature_trend text check (temperature_trend in ('rising','falling')),
  precipitation_probability_pct double precision,
  dewpoint_c double precision, relative_humidity_pct double precision,
  wind_speed_min_kmh double precision, wind_speed_max_kmh double precision,  -- '5 to 10 mph'
  wind_gust_kmh double precision, wind_direction text,                       -- 16-point, null if ''
  icon_url text, short_forecast text, detailed_forecast text,
  primary key (run_id, number)
);

create table forecast_discussions (
  product_id text primary key,                      -- upstream UUID
  office     text not null,
  issued_at  timestamptz not null,
  wmo_header text, awips_id text,
  correction text,                                  -- AAA, CCA ...
  raw_text   text not null,
  received_at timestamptz not null default now()
);
create index forecast_discussions_office on forecast_discussions (office, issued_at desc, product_id desc);
create index forecast_discussions_any on forecast_discussions (issued_at desc, product_id desc);
create table forecast_discussion_sections (
  product_id text references forecast_discussions on delete cascade,
  position smallint, heading text not null, qualifier text, body text not null,
  primary key (product_id, position)
);

create table weather_story_runs (
  run_id bigint generated always as identity primary key,
  office text not null, fetched_at timestamptz not null
);
create index weather_story_runs_office on weather_story_runs (office, fetched_at desc, run_id desc);
create index weather_story_runs_any on weather_story_runs (fetched_at desc, run_id desc);
create table weather_stories (
  run_id bigint references weather_story_runs on delete cascade,
  position smallint not null,
  title text not null, description text not null, alt_text text,
  image_url text, priority boolean not null default false,
  starts_at timestamptz not null, ends_at timestamptz not null, updated_at timestamptz,
  primary key (run_id, position)
);

-- shape weather.outlook.v2
create table outlook_runs (
  run_id      bigint generated always as identity primary key,
  shape       text not null default 'weather.outlook.v2' check (shape = 'weather.outlook.v2'),
  day         smallint not null check (day between 1 and 8),
  issued_at   timestamptz not null,
  valid_from  timestamptz not null,                 -- truncated on re-issue: never assume 12Z
  valid_until timestamptz not null check (valid_until > valid_from),
  forecaster  text,
  received_at timestamptz not null default now(),
  unique (day, issued_at, valid_from)
);
create index outlook_runs_latest on outlook_runs (day, issued_at desc, run_id desc);
create table outlooks (
  run_id bigint references outlook_runs on delete cascade,
  hazard text not null check (hazard in ('categorical','tornado','wind','hail','any_severe')),
  label  text not null,                             -- TSTM..HIGH | 0.02..0.60 | SIGN | CIG1..CIG3, or for a hazard as
                                                    -- a whole, with rank 0: NONE | UNKNOWN | UNREADABLE
  part   smallint not null default 1,
  kind   text not null check (kind in ('category','probability','intensity')),
  rank   smallint not null,                         -- order inside (hazard, kind); upstream dn is not unique
  probability_pct double precision,
  label_text text, stroke text, fill text,
  geometry jsonb not null,                          -- GeoJSON Polygon or MultiPolygon; unknown if it has no coordinates
  primary key (run_id, hazard, label, part)
);
create table outlook_discussions (
  run_id     bigint references outlook_runs on delete cascade,
  product_id text not null,
  issued_at  timestamptz not null,
  correction text,                                  -- 'CORR 1'
  headline   text, summary text, raw_text text not null,
  primary key (run_id, product_id)
);
do $$ begin
  if not exists (select from pg_roles where rolname = 'weather_reader') then create role weather_reader login; end if;
end $$;
grant usage on schema weather to weather_reader;
grant select on all tables in schema weather to weather_reader;
