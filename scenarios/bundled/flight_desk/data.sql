-- Vento Air on Monday 15 June 2026, 08:00 UTC.

INSERT INTO roles (id, code, title, refund_limit_cents, goodwill_limit_cents) VALUES
    (1, 'desk_agent', 'Desk agent', 50000, 5000),
    (2, 'supervisor', 'Desk supervisor', 300000, 30000);

INSERT INTO staff (id, login, name, role) VALUES
    (1, 'l.fonseca', 'Leonor Fonseca', 'desk_agent'),
    (2, 'd.matos', 'Daniel Matos', 'desk_agent'),
    (3, 'i.quintela', 'Isabel Quintela', 'supervisor');

INSERT INTO airports (id, code, name, city, country, min_connection_min) VALUES
    (1, 'LIS', 'Humberto Delgado', 'Lisbon', 'Portugal', 50),
    (2, 'OPO', 'Francisco Sá Carneiro', 'Porto', 'Portugal', 40),
    (3, 'FNC', 'Cristiano Ronaldo', 'Funchal', 'Portugal', 35),
    (4, 'PDL', 'João Paulo II', 'Ponta Delgada', 'Portugal', 35),
    (5, 'MAD', 'Adolfo Suárez Barajas', 'Madrid', 'Spain', 55),
    (6, 'BCN', 'Josep Tarradellas El Prat', 'Barcelona', 'Spain', 50),
    (7, 'CDG', 'Charles de Gaulle', 'Paris', 'France', 60),
    (8, 'AMS', 'Schiphol', 'Amsterdam', 'Netherlands', 50),
    (9, 'FRA', 'Frankfurt am Main', 'Frankfurt', 'Germany', 60),
    (10, 'LHR', 'Heathrow', 'London', 'United Kingdom', 75),
    (11, 'DUB', 'Dublin', 'Dublin', 'Ireland', 45),
    (12, 'FCO', 'Leonardo da Vinci Fiumicino', 'Rome', 'Italy', 55);

INSERT INTO routes (id, origin, destination, distance_miles) VALUES
    (1, 'LIS', 'LHR', 971), (2, 'LHR', 'LIS', 971),
    (3, 'LIS', 'CDG', 913), (4, 'CDG', 'LIS', 913),
    (5, 'LIS', 'AMS', 1146), (6, 'AMS', 'LIS', 1146),
    (7, 'LIS', 'FCO', 1163), (8, 'FCO', 'LIS', 1163),
    (9, 'LIS', 'FNC', 600), (10, 'FNC', 'LIS', 600),
    (11, 'LIS', 'OPO', 172), (12, 'OPO', 'LIS', 172),
    (13, 'LIS', 'FRA', 1167), (14, 'FRA', 'LIS', 1167),
    (15, 'LIS', 'MAD', 319), (16, 'MAD', 'LIS', 319),
    (17, 'LIS', 'DUB', 1019), (18, 'DUB', 'LIS', 1019),
    (19, 'LIS', 'PDL', 898), (20, 'PDL', 'LIS', 898),
    (21, 'LIS', 'BCN', 621), (22, 'BCN', 'LIS', 621);

INSERT INTO aircraft_types (id, code, name) VALUES
    (1, 'AT76', 'ATR 72-600'),
    (2, 'E190', 'Embraer E190'),
    (3, 'A320', 'Airbus A320');

INSERT INTO aircraft (id, registration, type_id, name) VALUES
    (1, 'CS-VTA', 3, 'Sagres'),
    (2, 'CS-VTB', 3, 'Ericeira'),
    (3, 'CS-VTE', 2, 'Berlenga'),
    (4, 'CS-VTF', 2, 'Arrábida'),
    (5, 'CS-VTK', 1, 'Douro');

-- The seat maps: rows and letters of each type, told once.
INSERT INTO seats (id, type_id, label, row_no, cabin, place, zone, fee_cents)
WITH RECURSIVE
    row_numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row_numbers WHERE n < 30),
    cabins (type_id, cabin, first_row, last_row, front_until, exit_from, exit_until) AS (VALUES
        (1, 'economy', 1, 18, 3, 9, 9),
        (2, 'business', 1, 3, 0, 0, 0),
        (2, 'economy', 4, 25, 6, 12, 12),
        (3, 'business', 1, 4, 0, 0, 0),
        (3, 'economy', 5, 30, 7, 12, 13)),
    letters (type_id, cabin, letter, position, place) AS (VALUES
        (1, 'economy', 'A', 1, 'window'), (1, 'economy', 'B', 2, 'aisle'),
        (1, 'economy', 'C', 3, 'aisle'), (1, 'economy', 'D', 4, 'window'),
        (2, 'business', 'A', 1, 'window'), (2, 'business', 'C', 3, 'aisle'),
        (2, 'business', 'F', 6, 'window'),
        (2, 'economy', 'A', 1, 'window'), (2, 'economy', 'C', 3, 'aisle'),
        (2, 'economy', 'D', 4, 'aisle'), (2, 'economy', 'F', 6, 'window'),
        (3, 'business', 'A', 1, 'window'), (3, 'business', 'C', 3, 'aisle'),
        (3, 'business', 'D', 4, 'aisle'), (3, 'business', 'F', 6, 'window'),
        (3, 'economy', 'A', 1, 'window'), (3, 'economy', 'B', 2, 'middle'),
        (3, 'economy', 'C', 3, 'aisle'), (3, 'economy', 'D', 4, 'aisle'),
        (3, 'economy', 'E', 5, 'middle'), (3, 'economy', 'F', 6, 'window')),
    zoned AS (
        SELECT c.type_id, c.cabin, r.n, l.letter, l.position, l.place,
            CASE
                WHEN c.cabin = 'business' THEN 'business'
                WHEN r.n <= c.front_until THEN 'front'
                WHEN r.n BETWEEN c.exit_from AND c.exit_until THEN 'exit'
                ELSE 'standard'
            END AS zone
        FROM cabins c
        JOIN row_numbers r ON r.n BETWEEN c.first_row AND c.last_row
        JOIN letters l ON l.type_id = c.type_id AND l.cabin = c.cabin)
SELECT type_id * 1000 + n * 10 + position, type_id, n || letter, n, cabin, place, zone,
    CASE zone WHEN 'front' THEN 1500 WHEN 'exit' THEN 2500 WHEN 'standard' THEN 900 ELSE 0 END
FROM zoned
ORDER BY type_id, n, position;

-- Crew rest, and a seat whose belt waits for a part.
UPDATE seats SET blocked = 1 WHERE (type_id, label) IN (VALUES (3, '30F'), (3, '12F'), (2, '25A'));

INSERT INTO fare_families (id, code, cabin, changeable, change_fee_cents, refund, refund_fee_cents, no_show_fee_cents, bags_included, bag_kg, seat_included, miles_percent) VALUES
    (1, 'LIGHT', 'economy', 0, 0, 'none', 0, NULL, 0, 23, 0, 25),
    (2, 'CLASSIC', 'economy', 1, 4500, 'less_fee', 7000, NULL, 1, 23, 0, 100),
    (3, 'FLEX', 'economy', 1, 0, 'full', 0, 9000, 1, 23, 1, 150),
    (4, 'BUSINESS', 'business', 1, 0, 'full', 0, 12000, 2, 32, 1, 200);

INSERT INTO ancillary_products (id, code, title, price_cents, max_per_segment) VALUES
    (1, 'BAG23', 'Extra checked bag of 23 kg', 4000, 3),
    (2, 'BAG32', 'Extra checked bag of 32 kg', 6500, 2),
    (3, 'SPORT', 'Sports equipment up to 32 kg', 5500, 1),
    (4, 'UMNR', 'Escort for an unaccompanied minor', 6000, 1),
    (5, 'MEAL', 'Hot meal', 1400, 2),
    (6, 'WCHR', 'Wheelchair to the aircraft', 0, 1);

INSERT INTO compensation_bands (id, kind, min_delay_min, max_delay_min, amount_cents) VALUES
    (1, 'delay', 120, 179, 5000),
    (2, 'delay', 180, 239, 12500),
    (3, 'delay', 240, NULL, 25000),
    (4, 'cancellation', 0, NULL, 25000);

INSERT INTO loyalty_tiers (id, code, tier_miles_needed, bonus_percent, extra_bags) VALUES
    (1, 'basic', 0, 0, 0),
    (2, 'silver', 20000, 25, 0),
    (3, 'gold', 45000, 50, 1);

INSERT INTO flights (id, number, route_id, aircraft_id, departs_at, arrives_at, status) VALUES
    -- Paris
    (201, 'VT436', 3, 1, '2026-06-16T12:30:00Z', '2026-06-16T15:05:00Z', 'cancelled'),
    (202, 'VT438', 3, 2, '2026-06-16T18:20:00Z', '2026-06-16T20:55:00Z', 'scheduled'),
    (203, 'VT434', 3, 1, '2026-06-17T06:40:00Z', '2026-06-17T09:15:00Z', 'scheduled'),
    (204, 'VT436', 3, 1, '2026-06-17T12:30:00Z', '2026-06-17T15:05:00Z', 'scheduled'),
    (205, 'VT437', 4, 1, '2026-06-20T16:00:00Z', '2026-06-20T18:35:00Z', 'scheduled'),
    -- Amsterdam
    (206, 'VT662', 5, 1, '2026-06-20T07:30:00Z', '2026-06-20T10:35:00Z', 'scheduled'),
    (207, 'VT662', 5, 1, '2026-06-22T07:30:00Z', '2026-06-22T10:35:00Z', 'scheduled'),
    (208, 'VT664', 5, 2, '2026-06-22T17:10:00Z', '2026-06-22T20:15:00Z', 'scheduled'),
    (209, 'VT663', 6, 1, '2026-06-27T11:25:00Z', '2026-06-27T14:30:00Z', 'scheduled'),
    -- London
    (210, 'VT350', 1, 1, '2026-06-18T07:15:00Z', '2026-06-18T10:00:00Z', 'scheduled'),
    (211, 'VT352', 1, 2, '2026-06-18T14:50:00Z', '2026-06-18T17:35:00Z', 'scheduled'),
    (212, 'VT351', 2, 1, '2026-06-25T11:10:00Z', '2026-06-25T13:55:00Z', 'scheduled'),
    (213, 'VT352', 1, 2, '2026-06-14T14:50:00Z', '2026-06-14T17:35:00Z', 'landed'),
    (214, 'VT350', 1, 2, '2026-06-17T07:15:00Z', '2026-06-17T10:00:00Z', 'scheduled'),
    (215, 'VT352', 1, 2, '2026-06-16T14:50:00Z', '2026-06-16T17:35:00Z', 'scheduled'),
    -- Madeira
    (216, 'VT160', 9, 3, '2026-06-27T08:05:00Z', '2026-06-27T09:55:00Z', 'scheduled'),
    (217, 'VT164', 9, 3, '2026-06-27T13:40:00Z', '2026-06-27T15:30:00Z', 'scheduled'),
    (218, 'VT168', 9, 4, '2026-06-27T20:30:00Z', '2026-06-27T22:20:00Z', 'scheduled'),
    (219, 'VT165', 10, 3, '2026-06-30T16:20:00Z', '2026-06-30T18:10:00Z', 'scheduled'),
    (220, 'VT160', 9, 3, '2026-06-20T08:05:00Z', '2026-06-20T09:55:00Z', 'scheduled'),
    (221, 'VT164', 9, 3, '2026-06-20T13:40:00Z', '2026-06-20T15:30:00Z', 'scheduled'),
    (222, 'VT168', 9, 4, '2026-06-20T20:30:00Z', '2026-06-20T22:20:00Z', 'scheduled'),
    -- Porto and Frankfurt
    (223, 'VT190', 12, 5, '2026-06-15T10:30:00Z', '2026-06-15T11:25:00Z', 'delayed'),
    (224, 'VT570', 13, 4, '2026-06-15T12:50:00Z', '2026-06-15T15:55:00Z', 'scheduled'),
    (225, 'VT574', 13, 4, '2026-06-15T18:05:00Z', '2026-06-15T21:10:00Z', 'scheduled'),
    (226, 'VT570', 13, 4, '2026-06-16T12:50:00Z', '2026-06-16T15:55:00Z', 'scheduled'),
    (227, 'VT190', 12, 5, '2026-06-23T10:30:00Z', '2026-06-23T11:25:00Z', 'scheduled'),
    (228, 'VT570', 13, 4, '2026-06-23T12:35:00Z', '2026-06-23T15:40:00Z', 'scheduled'),
    -- Rome
    (229, 'VT840', 7, 1, '2026-06-12T09:00:00Z', '2026-06-12T12:00:00Z', 'landed'),
    (230, 'VT842', 7, 2, '2026-06-11T15:20:00Z', '2026-06-11T18:20:00Z', 'landed'),
    (231, 'VT842', 7, 2, '2026-06-13T15:20:00Z', '2026-06-13T18:20:00Z', 'landed'),
    -- Azores
    (232, 'VT176', 19, 2, '2026-06-10T09:20:00Z', '2026-06-10T11:45:00Z', 'cancelled'),
    (233, 'VT176', 19, 2, '2026-06-11T09:20:00Z', '2026-06-11T11:45:00Z', 'landed'),
    (234, 'VT177', 20, 2, '2026-06-26T12:40:00Z', '2026-06-26T15:05:00Z', 'scheduled'),
    -- Madrid
    (235, 'VT720', 15, 3, '2026-06-19T08:10:00Z', '2026-06-19T09:30:00Z', 'scheduled'),
    (236, 'VT726', 15, 3, '2026-06-19T19:10:00Z', '2026-06-19T20:30:00Z', 'scheduled'),
    (237, 'VT721', 16, 3, '2026-06-21T10:15:00Z', '2026-06-21T11:35:00Z', 'scheduled'),
    -- Dublin
    (238, 'VT470', 17, 2, '2026-05-22T13:00:00Z', '2026-05-22T15:50:00Z', 'landed'),
    (239, 'VT471', 18, 2, '2026-05-29T16:40:00Z', '2026-05-29T19:30:00Z', 'landed'),
    -- Amsterdam and London, flown
    (240, 'VT662', 5, 1, '2026-05-30T07:30:00Z', '2026-05-30T10:35:00Z', 'landed'),
    (241, 'VT663', 6, 1, '2026-06-06T11:25:00Z', '2026-06-06T14:30:00Z', 'landed'),
    (246, 'VT350', 1, 1, '2026-04-02T07:15:00Z', '2026-04-02T10:00:00Z', 'landed'),
    -- Barcelona
    (242, 'VT740', 21, 3, '2026-06-24T10:00:00Z', '2026-06-24T11:55:00Z', 'scheduled'),
    (243, 'VT741', 22, 3, '2026-06-28T17:30:00Z', '2026-06-28T19:25:00Z', 'scheduled'),
    (244, 'VT740', 21, 3, '2026-06-15T10:00:00Z', '2026-06-15T11:55:00Z', 'cancelled'),
    (245, 'VT740', 21, 3, '2026-06-16T10:00:00Z', '2026-06-16T11:55:00Z', 'scheduled');

INSERT INTO flight_inventory (flight_id, cabin, capacity, seats_left) VALUES
    (201, 'economy', 154, 31), (201, 'business', 16, 6),
    (202, 'economy', 154, 0), (202, 'business', 16, 2),
    (203, 'economy', 154, 6), (203, 'business', 16, 5),
    (204, 'economy', 154, 22), (204, 'business', 16, 7),
    (205, 'economy', 154, 40), (205, 'business', 16, 9),
    (206, 'economy', 154, 12), (206, 'business', 16, 3),
    (207, 'economy', 154, 1), (207, 'business', 16, 4),
    (208, 'economy', 154, 37), (208, 'business', 16, 8),
    (209, 'economy', 154, 25), (209, 'business', 16, 6),
    (210, 'economy', 154, 18), (210, 'business', 16, 2),
    (211, 'economy', 154, 29), (211, 'business', 16, 5),
    (212, 'economy', 154, 44), (212, 'business', 16, 7),
    (214, 'economy', 154, 9), (214, 'business', 16, 1),
    (215, 'economy', 154, 5), (215, 'business', 16, 3),
    (216, 'economy', 87, 14), (216, 'business', 9, 2),
    (217, 'economy', 87, 23), (217, 'business', 9, 4),
    (218, 'economy', 87, 31), (218, 'business', 9, 5),
    (219, 'economy', 87, 20), (219, 'business', 9, 3),
    (220, 'economy', 87, 11), (220, 'business', 9, 1),
    (221, 'economy', 87, 19), (221, 'business', 9, 4),
    (222, 'economy', 87, 35), (222, 'business', 9, 6),
    (223, 'economy', 72, 8),
    (224, 'economy', 87, 4), (224, 'business', 9, 1),
    (225, 'economy', 87, 3), (225, 'business', 9, 2),
    (226, 'economy', 87, 16), (226, 'business', 9, 3),
    (227, 'economy', 72, 27),
    (228, 'economy', 87, 21), (228, 'business', 9, 4),
    (234, 'economy', 154, 58), (234, 'business', 16, 10),
    (235, 'economy', 87, 13), (235, 'business', 9, 2),
    (236, 'economy', 87, 26), (236, 'business', 9, 5),
    (237, 'economy', 87, 30), (237, 'business', 9, 4),
    (242, 'economy', 87, 17), (242, 'business', 9, 3),
    (243, 'economy', 87, 28), (243, 'business', 9, 5),
    (244, 'economy', 87, 10), (244, 'business', 9, 2),
    (245, 'economy', 87, 6), (245, 'business', 9, 1);

INSERT INTO disruptions (id, flight_id, kind, cause, departure_delay_min, arrival_delay_min, announced_at) VALUES
    (301, 201, 'cancellation', 'technical', NULL, NULL, '2026-06-15T05:40:00Z'),
    (302, 223, 'delay', 'air_traffic_control', 50, 55, '2026-06-15T07:35:00Z'),
    (303, 229, 'delay', 'technical', 251, 236, '2026-06-12T09:20:00Z'),
    (304, 230, 'delay', 'crew', 190, 182, '2026-06-11T15:00:00Z'),
    (305, 232, 'cancellation', 'weather', NULL, NULL, '2026-06-10T07:10:00Z'),
    (306, 233, 'delay', 'weather', 130, 125, '2026-06-11T08:45:00Z'),
    (307, 244, 'cancellation', 'crew', NULL, NULL, '2026-06-15T06:15:00Z'),
    (308, 241, 'delay', 'air_traffic_control', 45, 30, '2026-06-06T11:00:00Z');

INSERT INTO fares (id, flight_id, family_code, amount_cents, valid_from, valid_until) VALUES
    (2001, 202, 'CLASSIC', 23900, '2026-06-10', '2026-06-16'),
    (2002, 202, 'BUSINESS', 54900, '2026-06-10', '2026-06-16'),
    (2003, 203, 'LIGHT', 17900, '2026-06-08', '2026-06-17'),
    (2004, 203, 'CLASSIC', 21600, '2026-06-08', '2026-06-17'),
    (2005, 203, 'FLEX', 28800, '2026-06-08', '2026-06-17'),
    (2006, 204, 'LIGHT', 14900, '2026-06-08', '2026-06-17'),
    (2007, 204, 'CLASSIC', 18700, '2026-06-08', '2026-06-17'),
    (2008, 204, 'FLEX', 26200, '2026-06-08', '2026-06-17'),
    (2009, 206, 'CLASSIC', 20900, '2026-06-08', '2026-06-20'),
    (2010, 207, 'CLASSIC', 18900, '2026-06-01', '2026-06-10'),
    (2011, 207, 'CLASSIC', 21400, '2026-06-11', '2026-06-22'),
    (2012, 207, 'FLEX', 29900, '2026-06-08', '2026-06-22'),
    (2013, 208, 'CLASSIC', 22800, '2026-06-08', '2026-06-22'),
    (2014, 208, 'FLEX', 31500, '2026-06-12', '2026-06-22'),
    (2015, 208, 'FLEX', 28700, '2026-06-01', '2026-06-11'),
    (2016, 208, 'BUSINESS', 64300, '2026-06-08', '2026-06-22'),
    (2017, 210, 'CLASSIC', 21250, '2026-06-10', '2026-06-18'),
    (2018, 211, 'CLASSIC', 19400, '2026-06-10', '2026-06-18'),
    (2019, 211, 'FLEX', 27600, '2026-06-10', '2026-06-18'),
    (2020, 214, 'CLASSIC', 17900, '2026-06-01', '2026-06-09'),
    (2021, 214, 'CLASSIC', 19950, '2026-06-10', '2026-06-17'),
    (2022, 214, 'FLEX', 29100, '2026-06-10', '2026-06-17'),
    (2023, 215, 'CLASSIC', 22300, '2026-06-10', '2026-06-16'),
    (2024, 215, 'FLEX', 26400, '2026-06-01', '2026-06-13'),
    (2025, 215, 'FLEX', 27900, '2026-06-14', '2026-06-16'),
    (2026, 216, 'CLASSIC', 9800, '2026-06-01', '2026-06-27'),
    (2027, 217, 'CLASSIC', 8900, '2026-06-01', '2026-06-27'),
    (2028, 218, 'CLASSIC', 7600, '2026-06-01', '2026-06-27'),
    (2029, 220, 'FLEX', 14200, '2026-06-10', '2026-06-20'),
    (2030, 221, 'FLEX', 13600, '2026-06-10', '2026-06-20'),
    (2031, 225, 'LIGHT', 18800, '2026-06-12', '2026-06-15'),
    (2032, 225, 'CLASSIC', 23700, '2026-06-12', '2026-06-15'),
    (2033, 226, 'CLASSIC', 20100, '2026-06-12', '2026-06-16'),
    (2034, 235, 'CLASSIC', 8700, '2026-06-01', '2026-06-19'),
    (2035, 236, 'CLASSIC', 7900, '2026-06-01', '2026-06-19'),
    (2036, 242, 'CLASSIC', 10900, '2026-06-08', '2026-06-24'),
    (2037, 243, 'LIGHT', 6900, '2026-06-08', '2026-06-28'),
    (2038, 243, 'CLASSIC', 9200, '2026-05-25', '2026-06-12'),
    (2039, 243, 'CLASSIC', 11300, '2026-06-13', '2026-06-28'),
    (2040, 245, 'LIGHT', 9900, '2026-06-10', '2026-06-16'),
    (2041, 245, 'CLASSIC', 13400, '2026-06-10', '2026-06-16'),
    (2042, 237, 'CLASSIC', 8400, '2026-06-01', '2026-06-21');

INSERT INTO passengers (id, first_name, last_name, born_on, email) VALUES
    (1, 'Helena', 'Duarte', '1984-03-12', 'helena.duarte@correiosul.example'),
    (2, 'Tomás', 'Albuquerque', '1979-11-02', 'tomas@albuquerque-lda.example'),
    (3, 'Ana', 'Ferreira', '1991-07-19', 'ana.ferreira91@maildouro.example'),
    (4, 'Ana', 'Ferreira', '1963-02-08', 'ana.ferreira@oliveiras.example'),
    (5, 'Rui', 'Tavares', '1988-09-30', 'rui.tavares@pontoazul.example'),
    (6, 'Rui', 'Tavares', '1956-05-14', 'rtavares56@maildouro.example'),
    (7, 'Ingrid', 'Solberg', '1975-01-23', 'ingrid.solberg@fjordmail.example'),
    (8, 'Matilde', 'Rocha', '2017-04-05', NULL),
    (9, 'Sofia', 'Rocha', '1986-12-17', 'sofia.rocha@casarocha.example'),
    (10, 'Lourenço', 'Pires', '2018-08-21', NULL),
    (11, 'João', 'Mendes', '1994-06-27', 'joao.mendes@ondasul.example'),
    (12, 'Joana', 'Mendes', '1992-10-03', 'joana.mendes@ondasul.example'),
    (13, 'Catarina', 'Nunez', '1990-04-11', 'catarina.nunes@livraria.example'),
    (14, 'Pieter', 'de Vries', '1968-08-08', 'pieter@devries-bloemen.example'),
    (15, 'Eva', 'de Vries', '1971-02-25', 'eva@devries-bloemen.example'),
    (16, 'Marco', 'Bianchi', '1982-05-30', 'marco.bianchi@trastevere.example'),
    (17, 'Giulia', 'Bianchi', '1985-09-14', 'giulia.bianchi@trastevere.example'),
    (18, 'Giulio', 'Bianchi', '1958-01-09', 'giulio.bianchi@vianova.example'),
    (19, 'Beatriz', 'Carvalho', '1999-03-22', 'bia.carvalho@maildouro.example'),
    (20, 'Duarte', 'Nogueira', '1961-12-01', 'd.nogueira@nogueira-vinhos.example'),
    (21, 'Fiona', 'Gallagher', '1983-07-07', 'fiona.gallagher@liffeymail.example'),
    (22, 'Klaus', 'Weber', '1972-10-19', 'klaus.weber@mainpost.example'),
    (23, 'Lena', 'Weber', '1974-06-02', 'lena.weber@mainpost.example'),
    (24, 'Miguel', 'Antunes', '1987-05-05', 'miguel.antunes@lagos.example'),
    (25, 'Miguel', 'Antunes Reis', '1987-11-15', 'mareis@lagos.example'),
    (26, 'Priya', 'Nair', '1993-09-09', 'priya.nair@keralink.example'),
    (27, 'Oliver', 'Hughes', '1969-01-31', 'oliver.hughes@thamesmail.example'),
    (28, 'Carla', 'Monteiro', '1977-03-18', 'carla.monteiro@maildouro.example'),
    (29, 'Clara', 'Monteiro', '1978-03-08', 'clara.monteiro@maildouro.example'),
    (30, 'Nuno', 'Sequeira', '2010-10-11', NULL),
    (31, 'Teresa', 'Sequeira', '1980-04-24', 'teresa.sequeira@quintal.example'),
    (32, 'Hugo', 'Barata', '1996-08-16', 'hugo.barata@pontoazul.example'),
    (33, 'Yasmin', 'El Amrani', '1989-02-13', 'yasmin.elamrani@medina.example'),
    (34, 'Vasco', 'Lima', '1981-11-28', 'vasco.lima@limaelima.example');
