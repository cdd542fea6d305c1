/** Places of the samples, as a feeder would store them. */
export const placeRows = `
  insert into stations values ('KEMP', 'Émpty Field', 45, -93.5, 250, 'America/Chicago', 'MN') on conflict do nothing;
  update stations set state = case
    when station_id in ('KNYC') then 'NY' when station_id like 'PA%' then 'AK' when station_id = 'PHNL' then 'HI'
    when station_id in ('KEMP', 'KMSP', 'KSTP') then 'MN' when station_id = 'KBHM' then 'AL' when station_id = 'KBFI' then 'WA' end;
  insert into locations (location_id, name, latitude_deg, longitude_deg, time_zone, state) values
    ('OKX/33,35', 'Jersey City', 40.7145, -74.013, 'America/New_York', 'NJ'),
    ('AER/143,236', 'Anchorage', 61.2143, -149.8875, 'America/Anchorage', 'AK')
    on conflict (location_id) do update set name = excluded.name, state = excluded.state,
      latitude_deg = excluded.latitude_deg, longitude_deg = excluded.longitude_deg;
  insert into offices (office, name, latitude_deg, longitude_deg, time_zone, state) values
    ('OKX', 'New York', 40.8656, -72.8642, 'America/New_York', 'NY'),
    ('PSR', 'Phoenix', 33.4373, -111.9553, 'America/Phoenix', 'AZ'),
    ('TAE', 'Tallahassee', 30.4518, -84.2999, 'America/New_York', 'FL'),
    ('GUM', 'Tiyan, Guam', 13.4836, 144.7961, 'Pacific/Guam', 'GU')
    on conflict do nothing;
  insert into zones (ugc, name, geometry) values
    ('MTZ301', 'a part of Montana', '{"type":"Polygon","coordinates":[[[-113,47],[-111,47],[-111,48.5],[-113,48.5],[-113,47]]]}'),
    ('GUZ001', 'Guam', '{"type":"Polygon","coordinates":[[[144.5,13.2],[145,13.2],[145,13.7],[144.5,13.7],[144.5,13.2]]]}')
    on conflict do nothing;`;
