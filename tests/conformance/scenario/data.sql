INSERT INTO calls (tool) VALUES ('none');
